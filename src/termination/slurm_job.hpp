// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A Slurm job as Slurm describes it, and the time of its notice. Pure.

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/process.hpp"

namespace reprieve::termination {

/// The name under which Slurm knows the job that this process runs in: its number, or "15_3" for task 3 of the
/// array 15. Each task has a number as well, but that of one task is the array's, and stands for all tasks in commands.
/// @param environment  looks a variable up
/// @return nothing outside of a job
std::optional<std::string> slurm_job_id(
    const std::function<std::optional<std::string>(const std::string&)>& environment);

/// A job as `scontrol show job` describes it.
struct SlurmJobInfo {
  std::string state;       ///< "RUNNING", ...
  bool requeue = false;    ///< the job may be put back into the queue; `--no-requeue` forbids it
  bool preempted = false;  ///< Slurm has chosen it for preemption, and its grace time runs
  std::optional<std::chrono::system_clock::time_point> start;  ///< of this run of the job
  std::optional<std::chrono::system_clock::time_point> end;    ///< when Slurm will end it, as far as is known
};

/// Reads the output of `scontrol show job ID`; nothing if that does not describe a job.
std::optional<SlurmJobInfo> parse_slurm_job(const std::string& text);

/// How long before its end a run is notified by default: 2 min, but not more than a quarter of its time, so that a
/// short run gets something done.
std::chrono::seconds default_lead(std::chrono::seconds whole_time);

/// When the run must be notified: at once if the job is being preempted, @p lead before its end, or not at all.
/// @param lead  if nothing, the default; at most half of the run's time: a job that is notified at once and requeued
/// would make a step each time and never stop
std::optional<std::chrono::system_clock::time_point> notice_time(const SlurmJobInfo& job,
                                                                 std::optional<std::chrono::seconds> lead);

/// The changes to the environment under which the output of Slurm's commands can be read: variables to set, or (without
/// a value) to remove.
std::map<std::string, std::optional<std::string>> slurm_environment();

// A command that answers within seconds, run from inside of a rank.

/// Runs a program (searched in PATH; no shell) and returns its standard output if it ends with 0; nothing if it cannot
/// be started, fails, writes more than 64 KiB, or does not end within @p limit or before @p stop is requested: then it
/// is killed. Its standard error goes nowhere. Leaves no child behind. Thread: any.
std::optional<std::string> output_of(const std::vector<std::string>& arguments,
                                     const core::EnvironmentChanges& environment_changes,
                                     std::chrono::milliseconds limit, const std::stop_token& stop = {});

}  // namespace reprieve::termination
