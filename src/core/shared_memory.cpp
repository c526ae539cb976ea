// SPDX-License-Identifier: BSD-3-Clause
#include "core/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

namespace reprieve::core {

namespace {

/// A signal undoes what a call has taken so far, so that large amounts might never be done.
constexpr std::size_t kTakenAtOnce = std::size_t{64} << 20U;

/// Past the limit of the size of files, a signal would end the program.
bool is_allowed(std::size_t bytes) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

/// Takes the memory now: what is taken when it is touched first may be refused by a signal that kills.
bool take_memory(int descriptor, std::size_t bytes) noexcept {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t size = std::min(kTakenAtOnce, bytes - done);
    if (::fallocate(descriptor, 0, static_cast<off_t>(done), static_cast<off_t>(size)) == 0) {
      done += size;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<SharedMemory> SharedMemory::map(int descriptor, std::size_t bytes, int protection) noexcept {
  void* const memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    return std::nullopt;
  }
  return SharedMemory(static_cast<std::byte*>(memory), bytes);
}

std::optional<SharedMemory> SharedMemory::create(std::size_t bytes) noexcept {
  Descriptor file(::memfd_create("reprieve-tables", MFD_CLOEXEC));
  struct stat facts {};
  if (!file.is_open() || bytes == 0 || !is_allowed(bytes) || !take_memory(file.get(), bytes) ||
      ::fstat(file.get(), &facts) != 0) {
    return std::nullopt;
  }
  std::optional<SharedMemory> made = map(file.get(), bytes, PROT_READ | PROT_WRITE);
  if (made) {
    made->address_ = {::getpid(), file.get(), facts.st_dev, facts.st_ino, bytes};
    made->file_ = std::move(file);
  }
  return made;
}

std::optional<SharedMemory> SharedMemory::open(const SharedMemoryAddress& address) noexcept {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%lld/fd/%lld", static_cast<long long>(address.process),
                static_cast<long long>(address.descriptor));
  std::array<char, 32> target{};
  if (::readlink(path.data(), target.data(), target.size() - 1) < 0 ||
      !std::string_view(target.data()).starts_with("/memfd:reprieve-tables")) {
    return std::nullopt;  // to open another file might have effects
  }
  const Descriptor file(::open(path.data(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts {};
  // In another container the same numbers may mean another process and another file.
  if (!file.is_open() || ::fstat(file.get(), &facts) != 0 || facts.st_dev != address.device ||
      facts.st_ino != address.inode || static_cast<std::uint64_t>(facts.st_size) != address.bytes) {
    return std::nullopt;
  }
  return map(file.get(), static_cast<std::size_t>(address.bytes), PROT_READ);
}

SharedMemory::~SharedMemory() {
  if (memory_ != nullptr) {
    static_cast<void>(::munmap(memory_, size_));  // fails only for addresses that are none
  }
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)),
      address_(other.address_),
      memory_(std::exchange(other.memory_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(address_, other.address_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace reprieve::core
