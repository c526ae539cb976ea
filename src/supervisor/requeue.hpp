// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether and how a Slurm job gets back into the queue. Pure.

#include <optional>
#include <string>

#include "termination/slurm_job.hpp"

namespace reprieve::supervisor {

using termination::SlurmJobInfo;

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
