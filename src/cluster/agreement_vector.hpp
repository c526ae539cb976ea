// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The pure parts of the agreement: what travels in its reductions, and how many steps lie between two checks.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprieve::cluster {

/// Two checks at boundaries fit into this time while steps are short, so that a notice is acted on within it. Steps of
/// half this length are checked at every boundary. Checks are closer together where they cost less than 1 % of the
/// steps.
inline constexpr std::chrono::milliseconds kCheckInterval{16};

// What travels in one agreement check: pure encoding and decoding, without MPI.

/// Index of a step boundary: 1 for the first one after start.
using BoundaryIndex = std::int64_t;

/// A request for a checkpoint without a notice. The greatest of all ranks' requests counts.
enum class RequestedSave : std::int64_t { none = 0, local = 1, periodic = 2, user = 3 };

/// What one rank says in one check.
struct Contribution {
  BoundaryIndex index = 0;  ///< its boundary when it posted the reduction
  std::int64_t lag = 0;     ///< it does not pass boundary `index + lag` before the reduction completed
  bool notice = false;      ///< it has seen a notice
  bool failed = false;      ///< its step failed
  bool closing = false;     ///< it makes no further boundaries
  bool confirming = false;  ///< it waits at boundary `index` to enter a save together with all others
  RequestedSave requested = RequestedSave::none;
  std::optional<std::chrono::milliseconds> time_left{};  ///< until its deadline, if it knows of one
  std::chrono::nanoseconds step_time{0};                 ///< its recent step time
  std::chrono::nanoseconds check_cost{0};                ///< what the check before took of its time; 0: not known
  std::int64_t written = 0;  ///< how many saves in the background it has written, or failed to write
};

/// One reduction: element-wise maximum over all ranks.
using AgreementVector = std::array<std::int64_t, 14>;

AgreementVector encode(const Contribution& contribution, int rank, int size);

/// What all ranks know after one check: the same on every rank.
struct CheckResult {
  /// The boundary at which all ranks act on this result: the greatest `index + lag`. No rank has passed it.
  BoundaryIndex act_at = 0;
  BoundaryIndex first_index = 0;  ///< lowest and highest boundary at which ranks posted
  BoundaryIndex last_index = 0;
  BoundaryIndex notice_index = -1;   ///< greatest boundary at which a rank had seen a notice, or -1
  int notice_rank = -1;              ///< lowest rank with a notice, or -1
  int failed_rank = -1;              ///< lowest rank whose step failed, or -1
  BoundaryIndex closing_index = -1;  ///< greatest boundary of a rank that closes, or -1
  bool all_closing = false;
  bool all_confirming = false;
  RequestedSave requested = RequestedSave::none;
  std::optional<std::chrono::milliseconds> time_left{};  ///< until the earliest deadline
  std::chrono::nanoseconds step_time{0};                 ///< the slowest rank's
  std::chrono::nanoseconds check_cost{0};                ///< the least of any rank: that of the one that waited least
  std::int64_t written = 0;                              ///< how many saves in the background all ranks have written
};

CheckResult decode(const AgreementVector& vector, int size);

// What the threads of all ranks send each other in one round: pure encoding and decoding, without MPI.

/// What the thread of one rank says in a round.
struct RoundView {
  std::int64_t number = 0;  ///< of the round, from 1 on
  BoundaryIndex limit = 0;  ///< the main thread of this rank has not passed this boundary, and does not
  bool failed = false;      ///< the step of this rank failed
  bool closing = false;     ///< this rank's main thread is at the end: where all ranks are
  std::chrono::nanoseconds longest_step{0};
  bool has_notice = false;  ///< this rank has a notice that the others do not know
};

/// Reduced by element-wise maximum.
using RoundVector = std::array<std::int64_t, 7>;

[[nodiscard]] inline RoundVector encode(const RoundView& view) {
  return {view.number,
          -view.number,
          view.limit,
          view.failed ? 1 : 0,
          view.closing ? 0 : 1,
          view.longest_step.count(),
          view.has_notice ? 1 : 0};
}

/// What all ranks know after a round: the same on every rank.
struct RoundResult {
  bool numbers_agree = false;  ///< or a message was lost
  BoundaryIndex limit = 0;     ///< the greatest: no rank has passed it
  bool any_failed = false;
  bool all_closing = false;
  std::chrono::nanoseconds longest_step{0};
  bool any_notice = false;
};

[[nodiscard]] inline RoundResult decode(const RoundVector& vector) {
  return {vector[0] == -vector[1], vector[2], vector[3] != 0, vector[4] == 0, std::chrono::nanoseconds(vector[5]),
          vector[6] != 0};
}

// How many step boundaries lie between two checks of the agreement: a pure decision.
//
// A check may cost one percent of the steps between it and the one before. That gives the least number of steps
// between checks that is cheap enough, and so the soonest reaction when steps suddenly get longer: then the next check
// is so many of the *long* steps away.
//
// Phases of long and short steps often take turns. What the checks of a long phase leave of their percent is kept, and
// spent in the short phase after it on checks that are close together, so that the next long phase meets a close
// check. The percent holds over both phases together.
//
// All ranks feed it the same reduced values and must come to the same number. So it computes in whole numbers alone:
// functions of floating-point numbers may differ in the last bit between processors.

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
  /// Something else begins: the steps until now do not predict the next ones. Nor does the check that comes now, before
  /// any of them. So the check after it is at the next boundary as well.
  void restart() noexcept;

  /// Boundaries from one check to the next.
  [[nodiscard]] std::int64_t stride() const noexcept { return stride_; }
  /// Boundaries from the post of a check to the one where all ranks act on it.
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
