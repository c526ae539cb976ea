// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// When to save for the last time within a grace period. Pure arithmetic: every input is the same on all ranks, so all
/// ranks decide alike.

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

namespace reprieve::handler {

/// An upper estimate of a duration from its recent values.
class DurationHistory {
 public:
  void add(std::chrono::duration<double> value);
  [[nodiscard]] bool empty() const noexcept { return recent_.empty(); }
  /// The 90th percentile (nearest rank) of the last 16 values; zero if there is none. With fewer than 10 values that is
  /// the longest: a step or a save that got slower counts at once, one that got faster only after a while.
  [[nodiscard]] std::chrono::duration<double> upper_estimate() const;

 private:
  static constexpr std::size_t kKept = 16;
  std::deque<double> recent_;
};

/// What the decision depends on.
struct GraceInputs {
  std::chrono::duration<double> time_left;       ///< until the earliest deadline of any rank
  std::chrono::duration<double> save_time;       ///< upper estimate of one save
  std::chrono::duration<double> step_time;       ///< of the slowest rank
  std::chrono::duration<double> check_interval;  ///< between two agreement checks
  std::chrono::duration<double> margin;          ///< to be left over
};

/// How long before the deadline the last save must begin, since after one more check it would be too late: the next
/// check comes after an interval or a step, and the act on it a step later.
std::chrono::duration<double> final_save_lead(const GraceInputs& inputs);

/// Whether the last save must begin now.
bool final_save_is_due(const GraceInputs& inputs);

/// Whether, after a first save, there is room for at least one more step and a second save.
bool room_for_another_save(const GraceInputs& inputs);

/// Whether one ordinary save fits into a grace period at all.
bool save_fits(std::chrono::duration<double> grace_period, std::chrono::duration<double> save_time,
               std::chrono::duration<double> margin);

}  // namespace reprieve::handler
