#pragma once

/// @file
/// What a supervisor inside a Slurm job has to know and to decide. Pure.

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace reprieve::supervisor {

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

/// How long before its end a run is told if nothing is said: 2 min, but not more than a quarter of its time, so that a
/// short run gets something done.
std::chrono::seconds default_lead(std::chrono::seconds whole_time);

/// When the run must be told, given what is known of the job: at once if it is being preempted, @p lead before its end,
/// or not at all.
/// @param lead  if nothing, the default; at most half of the run's time, since a job that is told at once and put back
/// would make a step each time and never stop
std::optional<std::chrono::system_clock::time_point> notice_time(const SlurmJobInfo& job,
                                                                 std::optional<std::chrono::seconds> lead);

/// How a job gets back into the queue.
enum class RequeueWay {
  scontrol,   ///< `scontrol requeue`
  exit_code,  ///< the site has RequeueExit set to the restart code
};

/// What is known at the end of a run.
struct RequeueFacts {
  bool saved = false;
  bool hopeless = false;       ///< the next start would meet the same error
  bool slurm_decided = false;  ///< SIGTERM came: Slurm has requeued the job, or cancelled it, or its time is over
  bool by_hand = false;        ///< somebody sent SIGINT or SIGHUP
  std::optional<SlurmJobInfo> job;
};

/// Why the job must not be put back into the queue; nothing if it should be. A run that was not saved is put back only
/// if Slurm is preempting the job: at the end of the grace time Slurm would have done so itself.
std::optional<std::string> requeue_refusal(const RequeueFacts& facts);

/// The exit code in a Slurm job for a saved run that must not start again: where the site has set RequeueExit, the
/// restart code itself would start it.
inline constexpr int kSavedButNotAgain = 75;

}  // namespace reprieve::supervisor
