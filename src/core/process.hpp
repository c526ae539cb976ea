// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// This process: its environment, its system calls, its forks.

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reprieve/version_details.hpp"

namespace reprieve::core {

// The environment of this process, and of programs that it starts; the host on which it runs.

/// Looks a variable of the environment up; an empty one counts as none.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string&)>;
[[nodiscard]] std::optional<std::string> environment_variable(const std::string& name);

/// Variables to set, or (without a value) to remove.
using EnvironmentChanges = std::map<std::string, std::optional<std::string>>;

/// The environment of this process with the changes, as "NAME=value".
[[nodiscard]] std::vector<std::string> merged_environment(const EnvironmentChanges& changes);

/// Arguments or an environment as exec takes them: pointers to the texts, and a null one at the end. Valid as long as
/// the texts are.
[[nodiscard]] std::vector<char*> pointers_to(std::vector<std::string>& texts);

/// The name of this host; empty if it is not known.
[[nodiscard]] std::string host_name();

/// A living process of this host, as /proc/<pid>/stat shows it.
struct ProcessStat {
  pid_t parent = 0;
  std::uint64_t start = 0;  ///< in clock ticks since the boot
  bool is_stopped = false;  ///< by a signal, until SIGCONT
};
/// Nothing if there is none, or it has ended and waits for its parent.
[[nodiscard]] std::optional<ProcessStat> stat_of_process(pid_t pid);
/// When a process of this host began; zero as above.
[[nodiscard]] inline std::uint64_t start_of_process(pid_t pid) {
  return stat_of_process(pid).value_or(ProcessStat{}).start;
}

/// What the build knows of the library: all but the MPI that is running (`reprieve::version_details`).
[[nodiscard]] VersionDetails built_details();

// System calls that a signal may interrupt.

/// Repeats a system call, which returns less than 0 and sets errno, for as long as a signal interrupts it. Not for
/// close, which has closed the descriptor even then.
template <class Call>
auto uninterrupted(Call&& call) -> decltype(call()) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

// What a child that the application forks (without exec) must not take part in. It has copies of all objects, but MPI,
// the lock of the directory and the checkpoint are its parent's.

/// The process in which it was made.
class OwnerProcess {
 public:
  [[nodiscard]] bool is_here() const noexcept { return ::getpid() == pid_; }

 private:
  pid_t pid_ = ::getpid();
};

/// While it lives, children that are forked close their copy of the descriptor at once. There is no flag of the kernel
/// for that, as O_CLOEXEC is for programs that are started.
class ClosedOnFork {
 public:
  ClosedOnFork() = default;
  explicit ClosedOnFork(int descriptor);
  ~ClosedOnFork();
  ClosedOnFork(ClosedOnFork&& other) noexcept;
  ClosedOnFork& operator=(ClosedOnFork&& other) noexcept;

 private:
  int slot_ = -1;
};

}  // namespace reprieve::core
