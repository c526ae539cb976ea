// SPDX-License-Identifier: BSD-3-Clause
#include "faults/injector/fault_decision.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <stdexcept>

namespace reprieve::test {

namespace {

constexpr std::array<const char*, static_cast<std::size_t>(Call::count)> kCallNames{
    "open",     "read",     "write", "fsync", "rename", "mkdir", "unlink",
    "truncate", "allocate", "close", "stat",  "list",   "thread"};

bool has_path(Call call) { return call != Call::thread; }

struct Armed {
  std::mutex mutex;
  std::atomic<bool> any{false};
  std::condition_variable changed;
  std::uint64_t changes = 0;
  Fault fault;
  Hits hits;
};

/// Never destroyed: calls come until the very end of the process.
Armed& armed() {
  static auto* one = new Armed;
  return *one;
}

std::string path_of(int descriptor) {
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlink(link.data(), target.data(), target.size());
  return size < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(size));
}

/// FAULTY_CALLS_MARK: a file that is made when the fault of FAULTY_CALLS has come. By the kernel itself: the call of
/// the C library is one of those that are looked at.
void leave_mark() {
  if (const char* const mark = std::getenv("FAULTY_CALLS_MARK")) {
    const long made = ::syscall(SYS_openat, AT_FDCWD, mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (made >= 0) {
      ::syscall(SYS_close, made);
    }
  }
}

/// A relative path stands below the directory that the descriptor is of; without a path the descriptor itself counts.
std::string name_of(const char* path, int descriptor) {
  if (path == nullptr) {
    return path_of(descriptor);
  }
  return *path == '/' || descriptor < 0 ? std::string(path) : path_of(descriptor) + "/" + path;
}

/// FAULTY_CALLS=CALL:ERROR:OCCURRENCE:COUNT:PATH, with an error number (or -1 and -2, see the header), for programs
/// that are not linked with this library. FAULTY_CALLS_RANK: only on that rank of MPI_COMM_WORLD.
struct FromEnvironment {
  FromEnvironment() {
    const char* text = std::getenv("FAULTY_CALLS");
    const char* wanted = std::getenv("FAULTY_CALLS_RANK");
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    rank = rank != nullptr ? rank : std::getenv("PMI_RANK");  // MPICH
    if (text == nullptr || (wanted != nullptr && (rank == nullptr || std::string_view(rank) != wanted))) {
      return;
    }
    std::istringstream stream(text);
    std::array<std::string, 5> part;
    for (std::string& one : part) {
      std::getline(stream, one, ':');
    }
    arm({call_of(part[0]), std::stoi(part[1]), std::stoull(part[2]), std::stoull(part[3]), part[4]});
  }
};

const FromEnvironment kFromEnvironment;

}  // namespace

const char* to_string(Call call) noexcept { return kCallNames.at(static_cast<std::size_t>(call)); }

Call call_of(const std::string& name) {
  for (std::size_t i = 0; i < kCallNames.size(); ++i) {
    if (name == kCallNames[i]) {
      return static_cast<Call>(i);
    }
  }
  throw std::invalid_argument("no call is named " + name);
}

void arm(const Fault& fault) {
  Armed& state = armed();
  const std::lock_guard lock(state.mutex);
  state.fault = fault;
  state.hits = {};
  state.any = true;
  ++state.changes;
  state.changed.notify_all();
}

Hits hits() {
  Armed& state = armed();
  const std::lock_guard lock(state.mutex);
  return state.hits;
}

Hits disarm() {
  Armed& state = armed();
  const std::lock_guard lock(state.mutex);
  state.any = false;
  ++state.changes;
  state.changed.notify_all();
  return state.hits;
}

int decide(Call call, const char* path, int descriptor) noexcept {
  Armed& state = armed();
  if (!state.any) {
    return 0;
  }
  std::unique_lock lock(state.mutex);
  const Fault& fault = state.fault;
  if (!state.any || call != fault.call) {
    return 0;
  }
  std::string name;
  if (has_path(call)) {
    const int error_number = errno;
    name = name_of(path, descriptor);
    errno = error_number;
    if (name.find(fault.path) == std::string::npos) {
      return 0;
    }
  }
  ++state.hits.seen;
  if (state.hits.seen < fault.occurrence || state.hits.seen - fault.occurrence >= fault.count) {
    return 0;
  }
  if (state.hits.failed++ == 0) {
    state.hits.path = name;
    const int error_number = errno;
    leave_mark();
    errno = error_number;
  }
  if (fault.error != kHold) {
    return fault.error;
  }
  const int error_number = errno;
  state.changed.wait(lock, [&, armed_at = state.changes] { return state.changes != armed_at; });
  errno = error_number;
  return 0;
}

}  // namespace reprieve::test
