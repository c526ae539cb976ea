// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The end of a job that is known in advance.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "reprieve/platform.hpp"
#include "termination/metadata_source.hpp"
#include "termination/poller.hpp"

namespace reprieve::termination {

/// When a job ends, and for how long it may run in all.
struct JobEnd {
  WallClock::time_point end;
  std::chrono::seconds whole_time{0};
};

/// What the environment of a batch system says: SLURM_JOB_START_TIME and SLURM_JOB_END_TIME (seconds since 1970), or
/// PBS_WALLTIME (seconds, or hours:minutes:seconds), counted from @p started. Nothing if it says nothing. Pure.
std::optional<JobEnd> end_in_environment(Platform platform, const EnvironmentLookup& environment,
                                         WallClock::time_point started);

/// How long before the end the notice comes: @p wanted, or the default of a batch job, and never more than half of the
/// time, so that a run which is told at once and put back makes some progress. Pure.
std::chrono::milliseconds lead_before_end(const JobEnd& job, std::optional<std::chrono::milliseconds> wanted);

struct DeadlineSettings {
  std::optional<JobEnd> known;                    ///< from the configuration or the environment
  std::optional<std::string> slurm_job;           ///< ask Slurm: now and then, and before it is too late
  std::optional<std::chrono::milliseconds> lead;  ///< nothing: the default
};

/// Gives notice when the end is near, or when Slurm says that it is preempting the job.
std::unique_ptr<PolledSource> make_deadline_source(DeadlineSettings settings);

}  // namespace reprieve::termination
