// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/child_process.hpp"

#include <fcntl.h>
#include <signal.h>  // NOLINT: sigprocmask is POSIX, not in <csignal>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "reprieve/error.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;

std::string error_text(int error) { return std::generic_category().message(error); }

sigset_t termination_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    sigaddset(&set, signal);
  }
  return set;
}

/// In the child: the mask that the program starts with. SIGPIPE, which this process ignores, kills again.
bool prepare_signals(Shield shield) {
  sigset_t mask;
  sigemptyset(&mask);
  if (shield == Shield::signals) {
    mask = termination_signals();
  }
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  return ::sigaction(SIGPIPE, &standard, nullptr) == 0 && ::sigprocmask(SIG_SETMASK, &mask, nullptr) == 0;
}

/// In the child: away from the terminal and the process group, but not beyond this process's death.
bool prepare_session(pid_t parent) {
  return ::setsid() >= 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;
}

/// In the child: becomes the program, or tells why not and ends. Async-signal-safe calls only.
[[noreturn]] void become(const SpawnOptions& options, char* const* arguments, char* const* environment, pid_t parent,
                         int failure_pipe) {
  const bool prepared = (options.shield == Shield::none || prepare_session(parent)) &&
                        (options.output < 0 || ::dup2(options.output, STDOUT_FILENO) >= 0) &&
                        prepare_signals(options.shield);
  if (prepared) {
    ::execvpe(arguments[0], arguments, environment);
  }
  const int error = errno;
  const ssize_t told = ::write(failure_pipe, &error, sizeof error);
  ::_exit(told == ssize_t{sizeof error} ? 127 : 126);
}

/// What the child wrote into the pipe that a successful exec closes: errno, or nothing.
int failure_of_exec(int pipe) {
  int error = 0;
  ssize_t got = -1;
  do {
    got = ::read(pipe, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == ssize_t{sizeof error} ? error : 0;
}

std::optional<pid_t> number(const std::string& text) {
  pid_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

/// The parent of a living process; nothing if it is gone or dead.
std::optional<pid_t> parent_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  // The second field is the name, in parentheses, and may hold anything.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  pid_t parent = 0;
  return rest >> state >> parent && state != 'Z' && state != 'X' ? std::optional(parent) : std::nullopt;
}

std::string program_of(pid_t pid) {
  std::error_code error;
  return fs::read_symlink(fmt::format("/proc/{}/exe", pid), error).filename().string();
}

}  // namespace

pid_t spawn(const SpawnOptions& options) {
  std::vector<std::string> argument_texts = options.arguments;
  std::vector<std::string> environment_texts = core::merged_environment(options.environment);
  const std::vector<char*> arguments = core::pointers_to(argument_texts);
  const std::vector<char*> environment = core::pointers_to(environment_texts);
  std::array<int, 2> failure{};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorCode::io, fmt::format("cannot make a pipe: {}", error_text(errno)));
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become(options, arguments.data(), environment.data(), parent, failure[1]);
  }
  const int fork_error = errno;
  ::close(failure[1]);
  const int exec_error = child > 0 ? failure_of_exec(failure[0]) : 0;
  ::close(failure[0]);
  if (child < 0) {
    throw Error(ErrorCode::io, fmt::format("cannot start a process: {}", error_text(fork_error)));
  }
  if (exec_error != 0) {
    ::waitpid(child, nullptr, 0);
    throw UsageError(fmt::format("cannot start {}: {}", options.arguments.front(), error_text(exec_error)));
  }
  return child;
}

void block_termination_signals() {
  const sigset_t set = termination_signals();
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) {
    throw Error(ErrorCode::io, fmt::format("cannot block signals: {}", error_text(errno)));
  }
}

std::vector<EndedChild> reap() {
  std::vector<EndedChild> ended;
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    ended.push_back({pid, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)});
  }
  return ended;
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void adopt_orphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    throw Error(ErrorCode::io, fmt::format("cannot adopt orphaned processes: {}", error_text(errno)));
  }
}

std::vector<ProcessInfo> descendants_of(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const auto pid = number(entry->path().filename().string());
    if (const auto parent = pid ? parent_of(*pid) : std::nullopt) {
      children.emplace(*parent, *pid);
    }
  }
  std::vector<ProcessInfo> found;
  std::vector<pid_t> parents{root};
  for (std::size_t next = 0; next < parents.size(); ++next) {
    const auto [first, last] = children.equal_range(parents[next]);
    for (auto child = first; child != last; ++child) {
      found.push_back({child->second, child->first, program_of(child->second)});
      parents.push_back(child->second);
    }
  }
  return found;
}

}  // namespace reprieve::supervisor
