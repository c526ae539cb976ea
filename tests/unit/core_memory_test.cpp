// SPDX-License-Identifier: BSD-3-Clause
// Memory that processes of one machine look at together.

#include <gmock/gmock.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <future>

#include "core/memory.hpp"
#include "core/threads.hpp"
#include "manager/save.hpp"
#include "support/child.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::core {
namespace {

using test::in_child;

constexpr std::size_t kBytes = 100'000;

bool holds(const std::optional<SharedMemory>& memory, std::byte value) {
  return memory && memory->bytes().size() == kBytes &&
         std::ranges::all_of(memory->bytes(), [&](std::byte byte) { return byte == value; });
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

// Work on a thread of its own.

using namespace std::chrono_literals;

constexpr auto kLimit = std::chrono::milliseconds(60'000);

TEST(RunningTime, LeavesOutTheGapsOfASuspendedProcess) {
  const RunningTime::Clock::time_point start{};
  RunningTime time(start);
  EXPECT_EQ(time.elapsed(start + 100ms), 100ms);
  EXPECT_EQ(time.elapsed(start + 1h), 100ms);
  EXPECT_EQ(time.elapsed(start + 1h + 1s), 1100ms);
}

TEST(BackgroundTask, TellsItsEndAndWhatItThrew) {
  BackgroundTask good([] {});
  BackgroundTask bad([] { throw StorageError(ErrorCode::no_space, "full"); });
  ASSERT_TRUE(good.wait_for(kLimit));
  ASSERT_TRUE(bad.wait_for(kLimit));
  EXPECT_TRUE(good.done());
  EXPECT_FALSE(good.outcome());
  ASSERT_TRUE(bad.outcome());
  EXPECT_EQ(bad.outcome()->code, ErrorCode::no_space);
  EXPECT_EQ(bad.outcome()->message, "full");
}

TEST(BackgroundTask, WorkThatDoesNotEndIsLeftBehind) {
  std::promise<void> end;
  auto ended = std::make_shared<std::atomic<bool>>(false);
  {
    BackgroundTask task([may_end = end.get_future().share(), ended] {
      may_end.wait();
      *ended = true;
    });
    EXPECT_FALSE(task.wait_for(1ms));
    EXPECT_FALSE(task.done());
  }
  EXPECT_FALSE(*ended);
  end.set_value();
  while (!*ended) {
    sched_yield();
  }
}

TEST(BackgroundTask, TakesNoSignals) {
  sigset_t mask;
  sigemptyset(&mask);
  BackgroundTask task([&] { pthread_sigmask(SIG_SETMASK, nullptr, &mask); });
  ASSERT_TRUE(task.wait_for(kLimit));
  EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0);
}

TEST(BackgroundTask, IsNotBoundToTheCoreOfItsMaker) {
  cpu_set_t before;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) {
    GTEST_SKIP() << "there is one core only";
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
  cpu_set_t of_task;
  CPU_ZERO(&of_task);
  {
    BackgroundTask task([&] { pthread_getaffinity_np(pthread_self(), sizeof of_task, &of_task); });
    EXPECT_TRUE(task.wait_for(kLimit));
  }
  ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof before, &before), 0);
  EXPECT_GE(CPU_COUNT(&of_task), CPU_COUNT(&before));
}

}  // namespace
}  // namespace reprieve::core

// What memory there is for copies of the state: read from the system's files, and shared out among ranks.

namespace reprieve::manager {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::uint64_t kMega = std::uint64_t{1} << 20U;

class AvailableMemoryTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_.path() / file).parent_path());
    std::ofstream(root_.path() / file) << text;
  }
  [[nodiscard]] core::AvailableMemory read() const { return core::available_memory(root_.path()); }

  test::TemporaryDirectory root_;
};

TEST_F(AvailableMemoryTest, TheNodeSaysWhatItHasLeftAndNothingKnownIsNoLimit) {
  EXPECT_EQ(read().of_node, UINT64_MAX);
  EXPECT_EQ(read().of_group, UINT64_MAX);
  write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:     5000 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(read().of_node, 5000U * 1024);
}

TEST_F(AvailableMemoryTest, TheTightestGroupAboveCountsInVersionTwo) {
  write("proc/self/cgroup", "0::/job/step/task\n");
  write("sys/fs/cgroup/job/memory.max", "1000\n");
  write("sys/fs/cgroup/job/memory.current", "700\n");
  write("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 100\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.current", "700\n");
  write("sys/fs/cgroup/job/step/task/memory.max", "900\n");
  write("sys/fs/cgroup/job/step/task/memory.current", "100\n");
  EXPECT_EQ(read().of_group, 400U);
  EXPECT_THAT(read().group, testing::EndsWith("sys/fs/cgroup/job"));
}

TEST_F(AvailableMemoryTest, VersionOneIsReadAsWell) {
  write("proc/self/cgroup", "8:pids:/x\n4:cpu,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1200\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 300\n");
  EXPECT_EQ(read().of_group, 100U);
}

TEST_F(AvailableMemoryTest, APathOfOutsideOfAContainerLeadsToTheGroupThatIsSeen) {
  write("proc/self/cgroup", "0::/kubepods/pod1/box\n");
  write("sys/fs/cgroup/memory.max", "1000\n");
  write("sys/fs/cgroup/memory.current", "400\n");
  EXPECT_EQ(read().of_group, 600U);
}

TEST(AvailableMemory, OfThisMachineIsSomething) {
  EXPECT_GT(core::available_memory().of_node, 0U);
  EXPECT_LT(core::available_memory().of_node, UINT64_MAX);
}

CopyDemand demand(const std::string& host, std::uint64_t bytes, std::uint64_t of_node) {
  return {host, bytes, {of_node, UINT64_MAX, {}}};
}

TEST(CopyRoom, RanksOfAHostShareItsMemory) {
  const std::vector<CopyDemand> one{demand("a", 60 * kMega, 100 * kMega), demand("b", 60 * kMega, 100 * kMega)};
  EXPECT_EQ(why_copies_do_not_fit(one), "");
  const std::vector<CopyDemand> both{demand("a", 60 * kMega, 100 * kMega), demand("a", 60 * kMega, 110 * kMega)};
  EXPECT_THAT(why_copies_do_not_fit(both), HasSubstr("need 120.0 MiB on a, and "));
  EXPECT_NE(why_copies_do_not_fit(std::vector{demand("a", 100 * kMega, 100 * kMega)}), "") << "a part stays free";
  EXPECT_EQ(why_copies_do_not_fit(std::vector{demand("a", 0, 0)}), "") << "who has its memory already needs none";
}

TEST(CopyRoom, RanksOfAControlGroupShareItsLimit) {
  const auto in_group = [](const std::string& group) {
    return CopyDemand{"a", 60 * kMega, {1000 * kMega, 100 * kMega, group}};
  };
  EXPECT_EQ(why_copies_do_not_fit(std::vector{in_group("/1"), in_group("/2")}), "");
  EXPECT_THAT(why_copies_do_not_fit(std::vector{in_group("/1"), in_group("/1")}), HasSubstr("control group /1"));
}

}  // namespace
}  // namespace reprieve::manager
