// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>  // NOLINT: sigprocmask is POSIX, not in <csignal>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "core/log.hpp"
#include "core/run_record.hpp"
#include "core/values.hpp"
#include "reprieve/error.hpp"
#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;

std::string error_text(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail(const char* what, int error = errno) {
  throw Error(ErrorCode::io, fmt::format("cannot {}: {}", what, error_text(error)));
}

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
  return std::signal(SIGPIPE, SIG_DFL) != SIG_ERR && ::sigprocmask(SIG_SETMASK, &mask, nullptr) == 0;
}

/// In the child: away from the terminal and the process group. If this process dies, a launcher gets what it forwards
/// as a notice: the ranks save and leave. SIGTERM is blocked there, and is no notice to a launcher.
bool prepare_session(Shield shield, pid_t parent) {
  const int at_death = shield == Shield::signals ? SIGUSR1 : SIGKILL;
  return ::setsid() >= 0 && ::prctl(PR_SET_PDEATHSIG, at_death) == 0 && ::getppid() == parent;
}

/// In the child: becomes the program, or reports why not and ends. Async-signal-safe calls only.
[[noreturn]] void become(const SpawnOptions& options, char* const* arguments, char* const* environment, pid_t parent,
                         int failure_pipe) {
  const bool prepared = (options.shield == Shield::none || prepare_session(options.shield, parent)) &&
                        (options.output < 0 || ::dup2(options.output, STDOUT_FILENO) >= 0) &&
                        prepare_signals(options.shield);
  if (prepared) {
    ::execvpe(arguments[0], arguments, environment);
  }
  const int error = errno;
  const ssize_t written = ::write(failure_pipe, &error, sizeof error);
  ::_exit(written == ssize_t{sizeof error} ? 127 : 126);
}

/// What the child wrote into the pipe that a successful exec closes: errno, or nothing.
int failure_of_exec(int pipe) {
  int error = 0;
  const ssize_t got = core::uninterrupted([&] { return ::read(pipe, &error, sizeof error); });
  return got == ssize_t{sizeof error} ? error : 0;
}

fs::path proc(pid_t pid) { return fs::path("/proc") / std::to_string(pid); }

/// The variables that the process was started with; empty if they cannot be seen.
std::map<std::string, std::string> environment_of(pid_t pid) {
  std::ifstream file(proc(pid) / "environ", std::ios::binary);
  std::map<std::string, std::string> variables;
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (const auto equals = entry.find('='); equals != std::string::npos) {
      variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  return variables;
}

/// Not Slurm's SLURM_PROCID, which the batch script has as well.
std::optional<int> rank_in(const std::map<std::string, std::string>& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const auto found = environment.find(name); found != environment.end()) {
      return core::number_in<int>(found->second);
    }
  }
  return std::nullopt;
}

bool names_run(const std::map<std::string, std::string>& environment, const fs::path& run_directory) {
  const auto found = environment.find(core::kRunDirectoryVariable);
  return found != environment.end() &&
         (found->second == run_directory.string() || found->second.starts_with(run_directory.string() + "/"));
}

bool maps_mpi(pid_t pid) {
  std::ifstream maps(proc(pid) / "maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/libmpi") != std::string::npos) {
      return true;
    }
  }
  return false;
}

/// The parent of a living process.
std::optional<pid_t> parent_of(pid_t pid) {
  const auto found = core::stat_of_process(pid);
  return found ? std::optional(found->parent) : std::nullopt;
}

/// The value of a line of /proc/<pid>/status.
std::string status_of(pid_t pid, const std::string& key) {
  std::ifstream status(proc(pid) / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) {
      const auto value = line.find_first_not_of(" \t", key.size() + 1);
      return value == std::string::npos ? "" : line.substr(value);
    }
  }
  return "";
}

bool has_signal(pid_t pid, const std::string& set, int signal) {
  const std::string mask = status_of(pid, set);
  unsigned long long bits = 0;
  std::istringstream(mask) >> std::hex >> bits;
  return (bits >> static_cast<unsigned>(signal - 1) & 1U) != 0;
}

bool task_writes_output(const fs::path& task) {
  std::ifstream file(task / "syscall");
  std::string call;
  std::string descriptor;
  if (!(file >> call >> descriptor)) {
    return false;
  }
  static const std::set<int> kWrites{SYS_write, SYS_writev};
  const auto id = core::number_in<int>(call);  // or "running"
  return id && kWrites.contains(*id) && (descriptor == "0x1" || descriptor == "0x2");
}

constexpr int kUnseenFactor = 4;

/// Of the children that were reaped, and whose numbers no later one has.
std::map<pid_t, int>& codes() {
  static std::map<pid_t, int> codes;
  return codes;
}

}  // namespace

pid_t spawn(const SpawnOptions& options) {
  std::vector<std::string> argument_texts = options.arguments;
  std::vector<std::string> environment_texts = core::merged_environment(options.environment);
  const std::vector<char*> arguments = core::pointers_to(argument_texts);
  const std::vector<char*> environment = core::pointers_to(environment_texts);
  std::array<int, 2> failure{};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) {
    fail("make a pipe");
  }
  const core::Descriptor read_end(failure[0]);
  core::Descriptor write_end(failure[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become(options, arguments.data(), environment.data(), parent, write_end.get());
  }
  const int fork_error = errno;
  write_end = core::Descriptor();
  const int exec_error = child > 0 ? failure_of_exec(read_end.get()) : 0;
  if (child < 0) {
    fail("start a process", fork_error);
  }
  if (exec_error != 0) {
    ::waitpid(child, nullptr, 0);
    throw UsageError(fmt::format("cannot start {}: {}", options.arguments.front(), error_text(exec_error)));
  }
  codes().erase(child);
  return child;
}

void block_termination_signals() {
  const sigset_t set = termination_signals();
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) {
    fail("block signals");
  }
}

void reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    codes()[pid] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
}

std::optional<int> code_of(pid_t child) {
  const auto found = codes().find(child);
  return found == codes().end() ? std::nullopt : std::optional(found->second);
}

bool has_children(pid_t spared) {
  siginfo_t info{};
  const bool has_any = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  return has_any && (spared == 0 || !descendants_of(::getpid(), spared).empty());
}

void signal_at_parents_death() {
  if (::prctl(PR_SET_PDEATHSIG, SIGUSR1) != 0) {
    fail("ask for the death of the parent");
  }
}

void adopt_orphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    fail("adopt orphaned processes");
  }
}

std::vector<ProcessInfo> descendants_of(pid_t root, pid_t spared) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const auto pid = core::number_in<int>(entry->path().filename().string());
    if (const auto parent = pid && *pid != spared ? parent_of(*pid) : std::nullopt) {
      children.emplace(*parent, *pid);
    }
  }
  std::vector<ProcessInfo> found;
  std::vector<pid_t> parents{root};
  for (std::size_t next = 0; next < parents.size(); ++next) {
    const auto [first, last] = children.equal_range(parents[next]);
    for (auto child = first; child != last; ++child) {
      const fs::path program = fs::read_symlink(proc(child->second) / "exe", error);
      found.push_back({child->second, child->first, program.filename().string()});
      parents.push_back(child->second);
    }
  }
  return found;
}

std::vector<std::string> with_all_output(const std::vector<std::string>& command) {
  std::vector<std::string> words{"sh", "-c", "exec \"$@\" 2>&1", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

Command::Command(const std::vector<std::string>& arguments, const EnvironmentChanges& environment) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    fail("make a pipe");
  }
  pipe_ = core::Descriptor(ends[0]);
  const core::Descriptor write_end(ends[1]);
  pid_ = spawn({.arguments = arguments, .environment = environment, .output = write_end.get()});
}

void Command::kill_all() {
  if (code()) {
    return;  // the number may be that of another process by now
  }
  std::vector<ProcessInfo> processes = descendants_of(pid_);
  processes.insert(processes.begin(),
                   ProcessInfo{pid_, ::getpid(), ""});  // the first to end, so that it starts no others
  for (const ProcessInfo& process : processes) {
    static_cast<void>(::kill(process.pid, SIGKILL));  // it may have ended
  }
}

std::optional<int> Command::code() {
  if (code_) {
    return code_;
  }
  code_ = code_of(pid_);
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; code_ && (got = ::read(pipe_.get(), buffer.data(), buffer.size())) > 0;) {
    output_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return code_;
}

std::string in_one_line(const std::string& output) {
  std::string text;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const bool is_frame = line.starts_with("----");
    if (is_frame && !text.empty()) {
      break;
    }
    if (!is_frame && !line.empty()) {
      text += (text.empty() ? "" : "; ") + line;
    }
  }
  return text.empty() ? "no answer" : text;
}

SignalQueue::SignalQueue() {
  sigset_t queued;
  sigemptyset(&queued);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGURG, SIGXCPU, SIGALRM, SIGCHLD}) {
    sigaddset(&queued, signal);
  }
  // Blocked first, so that none comes to its default action in between.
  if (::pthread_sigmask(SIG_BLOCK, &queued, &before_) != 0) {
    fail("block signals");
  }
  // An ignored signal never reaches the queue, and ignored SIGCHLD loses exit codes.
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGURG, SIGXCPU, SIGALRM, SIGCHLD}) {
    if (std::signal(signal, SIG_DFL) == SIG_ERR) {
      fail("set a signal's disposition");
    }
  }
  // Output into a closed pipe must not end the supervisor while the job runs.
  if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
    fail("ignore SIGPIPE");
  }
  descriptor_ = core::Descriptor(::signalfd(-1, &queued, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.is_open()) {
    fail("make a signal queue");
  }
}

SignalQueue::~SignalQueue() {
  if (::pthread_sigmask(SIG_SETMASK, &before_, nullptr) != 0) {
    core::log::error("cannot restore the signal mask");
  }
}

std::vector<int> SignalQueue::wait(std::chrono::milliseconds limit) {
  pollfd entry{descriptor_.get(), POLLIN, 0};
  if (::poll(&entry, 1, static_cast<int>(limit.count())) < 0 && errno != EINTR) {
    fail("wait for signals");
  }
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(descriptor_.get(), &info, sizeof info) == ssize_t{sizeof info}) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

std::vector<ProcessInfo> processes_of_run(const fs::path& run_directory) {
  std::set<pid_t> own;
  for (const ProcessInfo& process : descendants_of(::getpid())) {
    own.insert(process.pid);
  }
  std::vector<ProcessInfo> found;
  for (const ProcessInfo& process : descendants_of(0)) {  // process 0 is the parent of the first ones
    const auto environment = environment_of(process.pid);
    if (process.pid != ::getpid() && (own.contains(process.pid) || names_run(environment, run_directory))) {
      const auto rank = rank_in(environment);
      found.push_back({process.pid, process.parent, process.program, rank, rank && maps_mpi(process.pid)});
    }
  }
  return found;
}

std::map<int, pid_t> rank_processes(const std::vector<ProcessInfo>& processes) {
  std::map<int, pid_t> ranks;
  std::set<int> found;  // whose process uses MPI
  for (const ProcessInfo& process : processes) {
    if (process.rank && !found.contains(*process.rank)) {
      ranks[*process.rank] = process.pid;
      if (process.uses_mpi) {
        found.insert(*process.rank);
      }
    }
  }
  return ranks;
}

std::string mortal_parent(pid_t pid) {
  const pid_t parent = parent_of(pid).value_or(0);
  bool is_of_slurm = false;
  // What is below this process hears of the end by it.
  for (auto above = parent_of(parent); above && *above > 0 && *above != ::getpid() && !is_of_slurm;
       above = parent_of(*above)) {
    is_of_slurm = status_of(*above, "Name") == "slurmstepd";  // of another user: its name alone can be seen
  }
  const std::string name = status_of(parent, "Name");
  return is_of_slurm && parent != ::getpid() && name != "slurmstepd" && !survives(parent, SIGTERM) ? name : "";
}

bool survives(pid_t pid, int signal) { return has_signal(pid, "SigCgt", signal) || has_signal(pid, "SigIgn", signal); }

bool writes_output(pid_t pid) {
  std::error_code error;
  for (fs::directory_iterator task(proc(pid) / "task", error), end; !error && task != end; task.increment(error)) {
    if (task_writes_output(task->path())) {
      return true;
    }
  }
  return false;
}

std::vector<ProcessInfo> HungLaunchers::find(const std::vector<ProcessInfo>& processes, Clock::time_point now) {
  std::set<pid_t> parents;
  for (const ProcessInfo& process : processes) {
    parents.insert(process.parent);
  }
  std::vector<ProcessInfo> hung;
  for (const ProcessInfo& process : processes) {
    const LauncherTraits* const launcher = traits_of(process.program);
    if (launcher == nullptr || !launcher->has_children) {
      continue;
    }
    Seen& seen = seen_.try_emplace(process.pid, Seen{now}).first->second;
    if (parents.contains(process.pid)) {
      seen = {now, true};
    } else if (now - seen.last_busy >= (seen.had_children ? limit_ : kUnseenFactor * limit_)) {
      hung.push_back(process);
    }
  }
  return hung;
}

}  // namespace reprieve::supervisor
