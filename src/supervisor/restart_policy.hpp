// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether a run that did not finish is started again. Pure.

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "supervisor/verdict.hpp"

namespace reprieve::supervisor {

struct RestartLimits {
  int restarts = 0;                             ///< starts after the first one
  std::chrono::milliseconds first_pause{1000};  ///< after a crash; doubles with each crash without progress
  std::chrono::milliseconds longest_pause{60'000};
  int fruitless_runs = 3;  ///< give up after so many in a row that made no progress
};

/// What to do after a run.
struct RestartDecision {
  bool restart = false;
  std::chrono::milliseconds pause{0};  ///< before the restart
  std::string reason;                  ///< why there is no restart; empty if nobody asked for one
};

/// Judges the runs of one supervisor one after the other.
class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits) {}

  /// The checkpoint that the run died reading, if others died of it before: it is to be verified before the next start.
  /// To be called once for each run, before `decide`.
  std::optional<std::filesystem::path> suspect(const Verdict& verdict);

  /// @param begins_elsewhere  the checkpoint where the run began is not there any more
  RestartDecision decide(const Verdict& verdict, bool begins_elsewhere);

  /// Restarts so far.
  [[nodiscard]] int used() const noexcept { return used_; }

 private:
  [[nodiscard]] std::string why_not(const Verdict& verdict) const;
  [[nodiscard]] std::chrono::milliseconds pause_after(const Verdict& verdict) const;

  RestartLimits limits_;
  int used_ = 0;
  int fruitless_ = 0;
  std::map<std::filesystem::path, int> deaths_;  ///< runs that died while they read a file
};

}  // namespace reprieve::supervisor
