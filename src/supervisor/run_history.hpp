// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the event log of a checkpoint directory tells about past runs. Pure.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace reprieve::supervisor {

/// Times in seconds; lists from the oldest to the newest.
struct RunHistory {
  int runs = 0;           ///< that came to their first step
  int finished = 0;       ///< came to their end
  int preempted = 0;      ///< left after a notice, their state saved
  int failed = 0;         ///< ended in any other way; not the last one, which may still be working
  double observed_s = 0;  ///< all runs together, from the start to the last event of each
  std::vector<double> saves_s;
  std::vector<double>
      first_saves_s;              ///< those of them that were the first of a run: the only one, if a notice comes early
  std::vector<double> blocked_s;  ///< for how much of each save the program stood still: all, or less in the background
  std::vector<double> restores_s;
  std::vector<double> waits_s;        ///< from notices to the agreement of all ranks
  std::vector<double> notices_s;      ///< from notices to the exit
  std::vector<double> intervals_s;    ///< of work between periodic saves
  std::vector<double> near_copies_s;  ///< for how long a near copy stopped the program: means
  double stepping_s = 0;              ///< the time of `steps` steps
  std::uint64_t steps = 0;
  double longest_step_s = 0;
  std::uint64_t state_bytes = 0;  ///< in the newest save

  /// Adds the runs of another directory.
  void add(const RunHistory& other);
};

/// @param events  of one event log, oldest first; unknown ones and those of other versions count for nothing
RunHistory read_history(const std::vector<nlohmann::json>& events);

}  // namespace reprieve::supervisor
