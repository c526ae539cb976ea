// SPDX-License-Identifier: BSD-3-Clause
#include "core/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <new>
#include <sstream>
#include <string_view>

namespace reprieve::core {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kKibi = 1024;

/// How a version of control groups names things.
struct Version {
  const char* mount;
  const char* limit;
  const char* used;
  const char* given_up;  ///< in memory.stat: page cache that the system takes back first
};
constexpr Version kSecond{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr Version kSecondBeside{"sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file"};
constexpr Version kFirst{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file"};

/// The number that follows a word at the beginning of a line.
std::optional<std::uint64_t> number_after(const fs::path& file, std::string_view wanted) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string word;
    std::uint64_t number = 0;
    if (words >> word && word == wanted && words >> number) {
      return number;
    }
  }
  return std::nullopt;
}

/// Nothing if there is no such file, or if it says "max".
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> room_in(const fs::path& group, const Version& version) {
  const auto limit = number_in(group / version.limit);
  const auto used = number_in(group / version.used);
  if (!limit || !used) {
    return std::nullopt;
  }
  const std::uint64_t counted =
      *used - std::min(*used, number_after(group / "memory.stat", version.given_up).value_or(0));
  return *limit - std::min(*limit, counted);
}

/// The group and all above it; in a container the path may be one of outside: only its end is there.
void read_groups(const fs::path& root, const Version& version, const fs::path& path, AvailableMemory& found) {
  const fs::path mount = root / version.mount;
  for (fs::path group = mount / path.relative_path();; group = group.parent_path()) {
    if (const auto room = room_in(group, version); room && *room < found.of_group) {
      found.of_group = *room;
      found.group = group.string();
    }
    if (group == mount || !group.has_relative_path()) {
      return;
    }
  }
}

enum class Readable : std::uint8_t { yes, no, unknown };

/// Without ending the process. Drivers of devices reserve addresses that are mapped, and that the host cannot touch.
/// The kernel reads a set of signals before it finds that it does not know what to do with it, so nothing is changed.
/// Unlike process_vm_readv, that reads what devices map too, and no sandbox forbids it.
Readable is_readable(const std::byte* address) noexcept {
  constexpr std::size_t set_bytes = 8;
  constexpr int unknown_action = ~0;
  const std::byte* const set = address - reinterpret_cast<std::uintptr_t>(address) % set_bytes;  // in the same page
  if (::syscall(SYS_rt_sigprocmask, unknown_action, set, nullptr, set_bytes) == 0) {
    return Readable::unknown;
  }
  return errno == EFAULT ? Readable::no : errno == EINVAL ? Readable::yes : Readable::unknown;
}

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

AvailableMemory available_memory(const fs::path& root) {
  AvailableMemory found;
  if (const auto kilobytes = number_after(root / "proc/meminfo", "MemAvailable:")) {
    found.of_node = *kilobytes * kKibi;
  }
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = fs::path(line.substr(second + 1)).lexically_normal();
    if (controllers == ",,") {
      read_groups(root, kSecond, path, found);
      read_groups(root, kSecondBeside, path, found);
    } else if (controllers.find(",memory,") != std::string::npos) {
      read_groups(root, kFirst, path, found);
    }
  }
  return found;
}

bool is_mapped(const void* first, std::size_t bytes) noexcept {
  if (bytes == 0) {
    return true;
  }
  // The calls take memory that may change, and change nothing.
  auto* const address = static_cast<std::byte*>(const_cast<void*>(first));
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t within_page = reinterpret_cast<std::uintptr_t>(first) % page;
  Readable ends = is_readable(address);
  // Small variables mostly lie in one page: a second call would take as long again.
  if (ends == Readable::yes && within_page + bytes > page) {
    ends = is_readable(address + bytes - 1);
  }
  if (ends == Readable::no || (ends == Readable::yes && bytes <= page)) {
    return ends == Readable::yes;
  }
  // MS_ASYNC writes nothing back in Linux (msync(2)); ENOMEM is its answer to what is not mapped. Other errors (a
  // sandbox that has no such call) say nothing about the memory.
  return msync(address - within_page, within_page + bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

Mapping::~Mapping() {
  if (!memory_.empty()) {
    static_cast<void>(::munmap(memory_.data(), memory_.size()));  // fails only for addresses that are none
  }
}

Mapping Mapping::find(std::size_t size, int protection, int flags, int descriptor, std::uint64_t offset) noexcept {
  Mapping made;
  if (size > 0) {
    void* const memory = ::mmap(nullptr, size, protection, flags, descriptor, static_cast<off_t>(offset));
    made.memory_ = memory == MAP_FAILED ? std::span<std::byte>() : std::span(static_cast<std::byte*>(memory), size);
  }
  return made;
}

Mapping Mapping::get(std::size_t size, int protection, int flags, int descriptor, std::uint64_t offset) {
  Mapping made = find(size, protection, flags, descriptor, offset);
  if (made.bytes().size() != size) {
    throw std::bad_alloc();
  }
  return made;
}

Mapping Mapping::of_process(std::size_t size) {
  Mapping made = get(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (size > 0) {
    ::madvise(made.memory_.data(), size, MADV_HUGEPAGE);  // a hint: where the kernel does not follow it is only slower
  }
  return made;
}

std::optional<SharedMemory> SharedMemory::create(std::size_t bytes) noexcept {
  Descriptor file(::memfd_create("reprieve-tables", MFD_CLOEXEC));
  struct stat facts {};
  if (!file.is_open() || bytes == 0 || !is_allowed(bytes) || !take_memory(file.get(), bytes) ||
      ::fstat(file.get(), &facts) != 0) {
    return std::nullopt;
  }
  SharedMemory made(Mapping::find(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get()));
  if (made.bytes().empty()) {
    return std::nullopt;
  }
  made.address_ = {::getpid(), file.get(), facts.st_dev, facts.st_ino, bytes};
  made.file_ = std::move(file);
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
  SharedMemory opened(Mapping::find(static_cast<std::size_t>(address.bytes), PROT_READ, MAP_SHARED, file.get()));
  return opened.bytes().empty() ? std::nullopt : std::optional(std::move(opened));
}

}  // namespace reprieve::core
