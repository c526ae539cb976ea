// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How many step boundaries lie between two checks of the agreement: a pure decision.
///
/// A check may cost one percent of the steps between it and the one before. That gives the least number of steps
/// between checks that is cheap enough, and so the soonest reaction when steps suddenly get longer: then the next check
/// is so many of the *long* steps away.
///
/// Phases of long and short steps often take turns. What the checks of a long phase leave of their percent is kept, and
/// spent in the short phase after it on checks that are close together, so that the next long phase meets a close
/// check. The percent holds over both phases together.
///
/// All ranks feed it the same reduced values and must come to the same number. So it computes in whole numbers alone:
/// functions of floating-point numbers may differ in the last bit between processors.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace reprieve::cluster {

/// What all ranks know after a check, to plan the next one.
struct CheckFacts {
  std::chrono::nanoseconds step_time{0};   ///< of the slowest rank, the mean since the check before
  std::chrono::nanoseconds check_cost{0};  ///< of the check before, on the rank that waited least; 0: not known
  std::int64_t boundaries = 0;             ///< since the check before
};

class CheckPlan {
 public:
  /// Checks are at most so many boundaries apart: enough to make their cost small against steps of microseconds.
  static constexpr std::int64_t kMaxStride = 128;

  /// @param longest_wait  steps between two checks take no longer than half of this, but for a single one
  explicit CheckPlan(std::chrono::nanoseconds longest_wait) : longest_wait_(longest_wait) {}

  void take(const CheckFacts& facts);
  /// Something else begins: the steps until now do not tell how long the next ones are, nor does the check that comes
  /// now, before any of them. So the one after it is at the next boundary as well.
  void restart() noexcept;

  /// Boundaries from one check to the next.
  [[nodiscard]] std::int64_t stride() const noexcept { return stride_; }
  /// Boundaries from the post of a check to the place where all ranks act on it.
  [[nodiscard]] std::int64_t lag() const noexcept { return stride_ / kLagDivisor; }

  /// What a check usually costs after a step of this length, on a machine with a core for each rank.
  [[nodiscard]] static std::chrono::nanoseconds usual_cost(std::chrono::nanoseconds step_time);

 private:
  static constexpr std::int64_t kLagDivisor = 5;
  static constexpr std::size_t kKeptCosts = 8;

  [[nodiscard]] std::chrono::nanoseconds cost_of_a_check(const CheckFacts& facts);

  std::chrono::nanoseconds longest_wait_;
  std::int64_t stride_ = 1;
  std::chrono::nanoseconds kept_{0};  ///< of the percent of earlier steps
  std::array<std::chrono::nanoseconds, kKeptCosts> costs_{};
  std::size_t costs_known_ = 0;
  bool begins_ = false;  ///< the next check lies where a phase begins
};

}  // namespace reprieve::cluster
