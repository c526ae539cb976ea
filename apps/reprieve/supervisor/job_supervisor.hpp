// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The inside of `reprieve run`: keeps a parallel program, its launcher and whoever wants it to end apart.

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/run_progress.hpp"
#include "supervisor/slurm.hpp"

namespace reprieve::supervisor {

struct SlurmSettings {
  std::string job_id;
  RequeueWay way = RequeueWay::scontrol;
  std::chrono::milliseconds poll{30'000};  ///< how often Slurm is asked for the job's end
};

/// Hosts that do not answer are left out.
struct HostSettings {
  int spares = 0;                ///< so many of the last hosts stay free while all others answer
  std::optional<int> min_ranks;  ///< on fewer the program is not started; nothing: the ranks of the command
  std::chrono::milliseconds patience{20'000};  ///< how long a host has to answer
};

struct SupervisorSettings {
  std::vector<std::string> command;  ///< the launcher or program, searched in PATH, and its arguments
  std::filesystem::path tool;        ///< the program that offers `launch-agent`
  RestartLimits restarts;
  /// The job is killed then.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  /// How long before the deadline, or before the end of the Slurm job, the ranks get notice; nothing:
  /// `termination::default_lead`.
  std::optional<std::chrono::seconds> lead;
  /// How long a notice waits for a program that reports nothing.
  std::chrono::milliseconds patience{60'000};
  /// The checkpoint directory that the program must use; its PREEMPT file counts from the start on. Absolute.
  std::optional<std::filesystem::path> directory;
  /// Where to make the private directory; empty: chosen by the number of nodes.
  std::filesystem::path run_directory_parent;
  /// See supervisor/after_commit.hpp; the second one needs `directory`.
  std::string after_commit;
  std::string before_start;
  std::chrono::milliseconds command_timeout{30 * 60'000};
  bool shield_daemons = true;
  std::chrono::seconds link_timeout{120};
  std::optional<SlurmSettings> slurm;
  std::optional<HostSettings> hosts;
  /// A run that ends in disorder leaves node-local copies behind: a checkpoint is made of them then.
  bool flushes_local_copies = true;
  std::function<void(const SupervisorEvent&)> on_event;
  /// Called about once a second with a line for a terminal.
  std::function<void(const std::string&)> on_status;
};

/// Runs the program to its end, or to the end of all patience: turns whatever says that the job is about to end (a
/// signal to this process, a deadline, a file named PREEMPT in the checkpoint directory) into a notice that reaches the
/// ranks, and starts the program again if that is wanted. Takes over the signals and the children of the process.
/// Thread: main.
/// @return 0 if it finished, the restart code if it was saved, the code of the error otherwise
/// @throws UsageError if the program cannot be started, or its hosts are not known; Error
int supervise(SupervisorSettings settings);

}  // namespace reprieve::supervisor
