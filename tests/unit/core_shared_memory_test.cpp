// SPDX-License-Identifier: BSD-3-Clause
// Memory that processes of one machine look at together.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "core/memory.hpp"

namespace reprieve::core {
namespace {

constexpr std::size_t kBytes = 100'000;

bool holds(const std::optional<SharedMemory>& memory, std::byte value) {
  return memory && memory->bytes().size() == kBytes &&
         std::ranges::all_of(memory->bytes(), [&](std::byte byte) { return byte == value; });
}

/// What @p question says in a child that is forked.
template <class Question>
bool in_child(Question&& question) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(question() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(SharedMemory, IsSeenByAnotherProcess) {
  auto memory = SharedMemory::create(kBytes);
  ASSERT_TRUE(memory);
  std::ranges::fill(memory->bytes(), std::byte{7});
  EXPECT_TRUE(in_child([&] { return holds(SharedMemory::open(memory->address()), std::byte{7}); }));
  EXPECT_FALSE(in_child([&] { return holds(SharedMemory::open(memory->address()), std::byte{8}); }));
}

TEST(SharedMemory, StaysForThoseWhoHaveItWhenItsDoorIsClosedAndItsMakerGone) {
  auto memory = SharedMemory::create(kBytes);
  ASSERT_TRUE(memory);
  std::ranges::fill(memory->bytes(), std::byte{7});
  const SharedMemoryAddress address = memory->address();
  const auto opened = SharedMemory::open(address);
  memory->close_door();
  EXPECT_FALSE(SharedMemory::open(address));
  EXPECT_TRUE(holds(memory, std::byte{7}));
  memory.reset();
  EXPECT_TRUE(holds(opened, std::byte{7}));
}

/// As in another container, where the numbers mean something else.
TEST(SharedMemory, AnotherFileIsNotTakenForIt) {
  const auto memory = SharedMemory::create(kBytes);
  const auto other = SharedMemory::create(kBytes);
  ASSERT_TRUE(memory && other);
  SharedMemoryAddress address = memory->address();
  address.descriptor = other->address().descriptor;
  EXPECT_FALSE(SharedMemory::open(address));
  address = memory->address();
  address.bytes += 1;
  EXPECT_FALSE(SharedMemory::open(address));
  EXPECT_FALSE(SharedMemory::open({}));
}

TEST(SharedMemory, WhatTheSystemCannotGiveIsNothing) {
  EXPECT_FALSE(SharedMemory::create(0));
  EXPECT_TRUE(in_child([] {
    const rlimit little{kBytes, kBytes};
    return ::setrlimit(RLIMIT_FSIZE, &little) == 0 && !SharedMemory::create(kBytes + 1) && SharedMemory::create(kBytes);
  }));
}

}  // namespace
}  // namespace reprieve::core
