// SPDX-License-Identifier: BSD-3-Clause
#include "support/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace reprieve::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr const char* kMarkVariable = "E2E_PROCESS_MARK";

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// Unique among all tests on this machine.
std::string new_mark() {
  static std::atomic<int> count{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return std::to_string(::getpid()) + "." + std::to_string(now) + "." + std::to_string(count++);
}

/// The current environment with the changes, as "NAME=value".
std::vector<std::string> merged_environment(const Environment& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) {
      merged.push_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    if (value) {
      merged.push_back(name + "=" + *value);
    }
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

int open_or_throw(const fs::path& file, int flags) {
  const int descriptor = ::open(file.c_str(), flags | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    throw_errno("cannot open " + file.string());
  }
  return descriptor;
}

/// Everything that the child needs, prepared before the fork, since little is allowed after it.
struct Launch {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string directory;
  int in, out, err;
  int failure_pipe;  ///< closed by a successful exec; otherwise carries errno
};

/// In the child: becomes the program, or reports errno and ends. Async-signal-safe calls only.
[[noreturn]] void become(const Launch& launch, char* const* arguments, char* const* environment, pid_t parent) {
  sigset_t none;
  ::sigemptyset(&none);
  const bool ready = ::setpgid(0, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent &&
                     ::dup2(launch.in, STDIN_FILENO) >= 0 && ::dup2(launch.out, STDOUT_FILENO) >= 0 &&
                     ::dup2(launch.err, STDERR_FILENO) >= 0 && ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0 &&
                     (launch.directory.empty() || ::chdir(launch.directory.c_str()) == 0);
  if (ready) {
    ::execvpe(arguments[0], arguments, environment);
  }
  const int error = errno;
  const ssize_t written = ::write(launch.failure_pipe, &error, sizeof error);
  ::_exit(written == ssize_t{sizeof error} ? 127 : 126);
}

pid_t spawn(Launch& launch) {
  std::array<int, 2> failure{};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) {
    throw_errno("pipe");
  }
  launch.failure_pipe = failure[1];
  const std::vector<char*> arguments = pointers(launch.arguments);
  const std::vector<char*> environment = pointers(launch.environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become(launch, arguments.data(), environment.data(), parent);
  }
  const int fork_error = errno;
  ::close(failure[1]);
  int exec_error = 0;
  const ssize_t got = child > 0 ? ::read(failure[0], &exec_error, sizeof exec_error) : 0;
  ::close(failure[0]);
  if (child < 0 || got > 0) {
    if (child > 0) {
      ::waitpid(child, nullptr, 0);
    }
    throw std::system_error(child < 0 ? fork_error : exec_error, std::generic_category(),
                            "cannot start " + launch.arguments.front());
  }
  return child;
}

/// The value of a variable in the environment that a process was started with; nothing if it is gone or not ours.
std::optional<std::string> environment_of(pid_t pid, const std::string& name) {
  const std::string all = read_text("/proc/" + std::to_string(pid) + "/environ");
  std::istringstream entries(all);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    if (entry.starts_with(name + "=")) {
      return entry.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

std::optional<int> number(const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

/// All living processes whose environment carries @p mark.
std::vector<pid_t> marked_processes(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::optional<int> pid = number(entry.path().filename().string());
    if (pid && environment_of(*pid, kMarkVariable) == mark) {
      found.push_back(*pid);
    }
  }
  return found;
}

int shell_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

int count_from(const char* variable, int usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::stoi(text);
}

bool wait_until(const std::function<bool()>& predicate, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + limit;
  for (auto begin = Clock::now(); !predicate(); begin = Clock::now()) {
    const auto now = Clock::now();
    if (now >= end) {
      return false;
    }
    // A look at all processes takes milliseconds, a tool tens of them: what is looked at needs the core as well.
    std::this_thread::sleep_for(std::clamp<Clock::duration>(4 * (now - begin), 5ms, 50ms));
  }
  return true;
}

std::string read_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
}

std::string program(const std::string& name) { return std::string(REPRIEVE_BIN_DIR) + "/" + name; }

Process::Process(const Command& command) : mark_(new_mark()) {
  Environment changes = command.environment;
  changes[kMarkVariable] = mark_;
  constexpr int kNew = O_WRONLY | O_CREAT | O_APPEND;
  Launch launch{command.arguments,
                merged_environment(changes),
                command.directory.string(),
                open_or_throw("/dev/null", O_RDONLY),
                open_or_throw(files_ / "out", kNew),
                open_or_throw(files_ / "err", kNew),
                -1};
  try {
    pid_ = spawn(launch);
  } catch (...) {
    ::close(launch.in), ::close(launch.out), ::close(launch.err);
    throw;
  }
  ::close(launch.in), ::close(launch.out), ::close(launch.err);
}

Process::~Process() {
  try {
    kill_all();
  } catch (const std::exception& error) {
    std::cerr << "cannot kill process " << pid_ << ": " << error.what() << '\n';
  }
}

void Process::kill_all() {
  const bool gone = wait_until(
      [this] {
        send_to_group(SIGKILL);
        const std::vector<pid_t> left = descendants();
        for (const pid_t pid : left) {
          ::kill(pid, SIGKILL);
        }
        return !running() && left.empty();
      },
      30s);
  if (!gone) {
    throw std::runtime_error("it or one that it started is still there");
  }
}

std::optional<int> Process::exit_code() {
  int status = 0;
  if (!exit_code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = shell_code(status);
  }
  return exit_code_;
}

std::optional<int> Process::wait(std::chrono::milliseconds limit) {
  static_cast<void>(wait_until([this] { return !running(); }, limit));
  return exit_code_;
}

// The process is not reaped before `exit_code_` is known, so its number cannot belong to another one.
void Process::send(int signal) {
  if (running() && ::kill(pid_, signal) != 0) {
    throw_errno("kill " + std::to_string(pid_));
  }
}

void Process::send_to_group(int signal) {
  if (running() && ::kill(-pid_, signal) != 0) {
    throw_errno("kill group " + std::to_string(pid_));
  }
}

std::vector<pid_t> Process::descendants() const {
  std::vector<pid_t> found = marked_processes(mark_);
  std::erase(found, pid_);
  return found;
}

bool Process::wait_for_descendants(std::chrono::milliseconds limit) const {
  return wait_until([this] { return descendants().empty(); }, limit);
}

bool has_open_mpi_4() {
  static const bool found = [] {
    Process version({.arguments = {"mpirun", "--version"}, .environment = mpirun_environment()});
    version.wait(std::chrono::seconds(30));
    return version.out().find("(Open MPI) 4.") != std::string::npos;
  }();
  return found;
}

Environment mpirun_environment() {
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"PRTE_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"PRTE_MCA_rmaps_default_mapping_policy", ":OVERSUBSCRIBE"},
          {"OMPI_MCA_hwloc_base_binding_policy", "none"},
          {"PRTE_MCA_hwloc_default_binding_policy", "none"},
          {"OMPI_MCA_reachable", "weighted"}};
}

namespace {

Command mpirun_command(const MpiCommand& command, const fs::path& shared_memory) {
  Command result{command.launch_prefix, command.environment, command.directory};
  std::vector<std::string>& arguments = result.arguments;
  const std::string ranks = std::to_string(command.ranks);
  // Without --bind-to, jobs that run at the same time are all bound to the same first cores.
  arguments.insert(arguments.end(), {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks});
  // Open MPI 5 gives ranks on other hosts no other variables than those that are named.
  arguments.insert(arguments.end(), {"-x", kMarkVariable});
  arguments.insert(arguments.end(), command.mpirun_options.begin(), command.mpirun_options.end());
  arguments.insert(arguments.end(), command.rank_prefix.begin(), command.rank_prefix.end());
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  // `insert` keeps what the test has set.
  result.environment.insert({"OMPI_MCA_btl_vader_backing_directory", shared_memory.string()});
  result.environment.insert({"PRTE_MCA_prte_tmpdir_base", shared_memory.string()});
  result.environment.merge(mpirun_environment());
  return result;
}

}  // namespace

Mpirun::Mpirun(const MpiCommand& command)
    : Process(mpirun_command(command, shared_memory.path())),
      size_(command.ranks),
      program_(fs::weakly_canonical(command.arguments.at(0))) {}

std::map<int, pid_t> Mpirun::ranks() const {
  std::map<int, pid_t> found;
  for (const pid_t pid : descendants()) {
    const std::optional<std::string> rank = environment_of(pid, "OMPI_COMM_WORLD_RANK");
    std::error_code gone;
    // By the file and not by its name: a process with mounts of its own may see it elsewhere.
    if (rank && fs::equivalent("/proc/" + std::to_string(pid) + "/exe", program_, gone) && !gone) {
      found[number(*rank).value()] = pid;
    }
  }
  return found;
}

bool Mpirun::wait_for_ranks(std::chrono::milliseconds limit) {
  const auto complete = [this] { return std::cmp_equal(ranks().size(), size_); };
  return wait_until([&] { return complete() || !running(); }, limit) && running();
}

bool Mpirun::send_to_rank(int rank, int signal) {
  const std::map<int, pid_t> living = ranks();
  const auto found = living.find(rank);
  return found != living.end() && ::kill(found->second, signal) == 0;
}

int Mpirun::send_to_ranks(int signal) {
  int sent = 0;
  for (const auto& [rank, pid] : ranks()) {
    sent += ::kill(pid, signal) == 0 ? 1 : 0;
  }
  return sent;
}

}  // namespace reprieve::test
