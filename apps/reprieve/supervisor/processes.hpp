// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Processes of this host: programs that are started, commands whose output is wanted, signals, and what /proc shows.

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/directory.hpp"
#include "core/process.hpp"

namespace reprieve::supervisor {

// Starting programs, and knowing when all that they started is gone.

using core::EnvironmentChanges;

/// What keeps a program from signals that are not meant for it.
enum class Shield {
  none,
  session,  ///< a session of its own, away from the terminal and the process group; killed if this process dies
  /// Besides, SIGTERM, SIGINT and SIGHUP are blocked, so that none reaches it uninvited. For a launcher alone: what a
  /// script starts would inherit it. If this process dies, it gets SIGUSR1, which it forwards.
  signals,
};

struct SpawnOptions {
  std::vector<std::string> arguments;  ///< the program (searched in PATH), then its arguments; no shell is involved
  EnvironmentChanges environment = {};
  Shield shield = Shield::none;
  int output = -1;  ///< descriptor for its standard output; -1: this process's
};

/// Starts a program. @throws UsageError if it is not found or may not be executed; Error if the system has no room
pid_t spawn(const SpawnOptions& options);

/// Blocks SIGTERM, SIGINT and SIGHUP for what this process becomes by exec. @throws Error
void block_termination_signals();

/// Takes up the children that have ended since the last call. Does not wait.
void reap();

/// The code of a child that was taken up, as a shell shows it: 128 + signal if one killed it. Nothing while it runs.
std::optional<int> code_of(pid_t child);

/// Whether this process has children besides @p spared. Without that, ended ones that are not reaped count too.
bool has_children(pid_t spared = 0);

/// From now on, a descendant whose parent ends becomes a child of this process, so that none gets out of sight.
/// @throws Error if the kernel refuses
void adopt_orphans();

/// From now on this process gets SIGUSR1 when its parent dies. @throws Error if the kernel refuses
void signal_at_parents_death();

/// A process as /proc shows it.
struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string program;  ///< file name of the executable; empty if that cannot be seen
  // Of a process of a run:
  std::optional<int> rank = {};  ///< if a launcher has started it, or what it started
  bool uses_mpi = false;         ///< has an MPI library in memory
};

/// The living processes below @p root, without itself; parents come before their children.
/// @param spared  is left out, with all that is below it
std::vector<ProcessInfo> descendants_of(pid_t root, pid_t spared = 0);

// A command whose output is of interest, run while the supervisor continues with other things.

/// The same command, whose errors go to its standard output: what launchers say at a failure goes to both.
[[nodiscard]] std::vector<std::string> with_all_output(const std::vector<std::string>& command);

/// Its output must fit into a pipe (64 KiB). Its end is seen when it has been reaped.
class Command {
 public:
  /// Starts it. @throws UsageError if it is not found
  explicit Command(const std::vector<std::string>& arguments, const EnvironmentChanges& environment = {});

  /// Kills it and what it has started; its end is seen as any other.
  void kill_all();
  /// The exit code; nothing while it runs.
  [[nodiscard]] std::optional<int> code();
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// What it wrote, once `code` has said that it ended.
  [[nodiscard]] const std::string& output() const noexcept { return output_; }

 private:
  core::Descriptor pipe_;
  pid_t pid_ = -1;
  std::optional<int> code_;
  std::string output_;
};

/// What a command said, in one line, or else what mpirun says: that stands between lines of dashes, behind the rest.
[[nodiscard]] std::string in_one_line(const std::string& output);

/// While it lives, the signals that a supervisor acts on (and SIGCHLD, which wakes it) wait here. SIGCONT is left
/// alone. SIGINT and SIGHUP stay ignored if they were: `nohup` and background jobs of scripts mean it. Thread: main;
/// before other threads start, which inherit the mask.
class SignalQueue {
 public:
  /// @throws Error
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// Waits up to @p limit for a signal; then the signals that have come, in no particular order, each once. May return
  /// early with none.
  std::vector<int> wait(std::chrono::milliseconds limit);

 private:
  sigset_t before_{};
  core::Descriptor descriptor_;
};

// The processes of a run on this host, as seen from outside: /proc.

/// The living processes below this one, and those whose environment names the run's directory or one below it: srun's
/// tasks have another parent. Parents come before their children.
std::vector<ProcessInfo> processes_of_run(const std::filesystem::path& run_directory);

/// The process of each rank: of a rank's wrapper, program and helpers the outermost that uses MPI; else the innermost.
/// Pure.
std::map<int, pid_t> rank_processes(const std::vector<ProcessInfo>& processes);

/// The program that is the parent of @p pid, if Slurm sends SIGTERM to it and it would die of that: the shell of a
/// batch script, or a wrapper that srun has started. Slurm then kills what is below it. Empty: there is none.
std::string mortal_parent(pid_t pid);

/// False once it has ended, reaped or not.
inline bool lives(pid_t pid) { return core::stat_of_process(pid).has_value(); }

/// Whether a process handles or ignores a signal instead of dying of it.
bool survives(pid_t pid, int signal);

/// Whether a thread of the process stands in a write to its standard output or error, which nobody reads.
bool writes_output(pid_t pid);

// Launchers that do not end although nothing is left of what they launched. Pure.
//
// Seen with Open MPI 4.1.4 when a rank is killed within some tens of milliseconds of its start, while it connects to
// mpirun (1 time in some 100): mpirun waits for ever in PMIx_server_finalize for a lock that nobody holds any more.

class HungLaunchers {
 public:
  using Clock = std::chrono::steady_clock;

  /// A launcher that had children and has had none for @p limit hangs: its own tear-down takes some seconds. One that
  /// was never seen with any gets four times as long: it may have to look for hosts first, or its ranks died at once.
  explicit HungLaunchers(std::chrono::seconds limit = std::chrono::seconds(30)) : limit_(limit) {}

  /// @param processes  all that live now, as `descendants_of` lists them. Needed every few seconds, and several times a
  /// second while the ranks start
  /// @return those that hang
  [[nodiscard]] std::vector<ProcessInfo> find(const std::vector<ProcessInfo>& processes, Clock::time_point now);

 private:
  struct Seen {
    Clock::time_point last_busy;
    bool had_children = false;
  };

  std::chrono::seconds limit_;
  std::map<pid_t, Seen> seen_;
};

}  // namespace reprieve::supervisor
