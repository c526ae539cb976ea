// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What is saved, and at which step boundary. Without MPI and without a clock: everything that goes in is the same on
/// all ranks, so all ranks decide alike.

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "cluster/agreement_vector.hpp"
#include "reprieve/save.hpp"

namespace reprieve::handler {

// When to save for the last time within a grace period. Pure arithmetic: every input is the same on all ranks, so all
// ranks decide alike.

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

// How often to save where the program does not say it.

/// sqrt(2 d M), for saves that cost d and a mean time M between failures: J. W. Young, A first order approximation to
/// the optimum checkpoint interval, Communications of the ACM 17(9), 1974, 530-531. Work between two saves, for d much
/// smaller than M. All times in seconds.
inline double young_interval_s(double save_s, double mtbf_s) { return std::sqrt(2 * save_s * mtbf_s); }

/// A failure in so much time is assumed, saves take at most so great a part of it, and none comes earlier.
inline constexpr std::chrono::hours kAssumedMtbf{24};
inline constexpr double kMostSaving = 0.01;
inline constexpr std::chrono::minutes kLeastInterval{10};

/// The time between two saves. The program stands still for @p cost in each save.
std::chrono::duration<double> automatic_interval(std::chrono::duration<double> cost);

// When a run reports its progress, for `reprieve status` and `reprieve report`.

/// How long after the last word the next one is due, @p elapsed after the begin: often at first, when people look, and
/// every minute later, so that the log of a month has some ten megabytes.
[[nodiscard]] inline std::chrono::steady_clock::duration news_interval(
    std::chrono::steady_clock::duration elapsed) noexcept {
  return std::clamp<std::chrono::steady_clock::duration>(elapsed / 10, std::chrono::seconds(5),
                                                         std::chrono::minutes(1));
}

/// What all ranks have agreed to do, and where.
struct Decision {
  enum class Kind { preemption, final_save, requested_save, local_copy };
  Kind kind = Kind::requested_save;
  cluster::BoundaryIndex at = 0;
  int notice_rank = -1;
  SaveReason::Kind reason = SaveReason::Kind::user;
};

/// The settings that the decisions follow from.
struct SaveRules {
  std::uint64_t every_steps = 0;  ///< a periodic save at each multiple; 0: none
  std::chrono::milliseconds grace_margin{0};
};

/// What a decision depends on besides the result.
struct SaveSituation {
  bool notice_is_agreed = false;       ///< all ranks know of a notice
  bool background_is_pending = false;  ///< a save in the background is begun and not committed
  std::int64_t background_begun = 0;   ///< how many there have been
};

class SavePolicy {
 public:
  explicit SavePolicy(SaveRules rules) : rules_(rules) {}

  /// @p check_result is the latest one.
  void note(const cluster::CheckResult& check_result) { check_result_ = check_result; }
  /// The same, and decides by it.
  void decide(const cluster::CheckResult& check_result, const SaveSituation& situation);

  [[nodiscard]] const std::optional<Decision>& decision() const noexcept { return decision_; }
  [[nodiscard]] bool decision_is_due(cluster::BoundaryIndex here) const noexcept {
    return decision_ && here >= decision_->at;
  }
  /// All ranks have agreed on a preemption, and do not save for it yet.
  [[nodiscard]] bool preemption_is_decided() const noexcept {
    return decision_ && decision_->kind == Decision::Kind::preemption;
  }
  /// A preemption is near, for which a save will be made.
  [[nodiscard]] bool preemption_is_near() const noexcept {
    return decision_ &&
           (decision_->kind == Decision::Kind::preemption || decision_->kind == Decision::Kind::final_save);
  }
  [[nodiscard]] bool local_copy_is_decided() const noexcept {
    return decision_ && decision_->kind == Decision::Kind::local_copy;
  }
  /// Returns the decision and clears it.
  Decision take_decision();
  void drop_decision() noexcept { decision_.reset(); }

  /// Whether all ranks commit the save in the background here.
  [[nodiscard]] bool commit_is_due(cluster::BoundaryIndex here) const noexcept {
    return commit_at_ && here >= *commit_at_;
  }
  [[nodiscard]] bool commit_is_planned() const noexcept { return commit_at_.has_value(); }
  void drop_commit() noexcept { commit_at_.reset(); }

  /// What is decided is done at @p boundary at the latest.
  void bring_forward(cluster::BoundaryIndex boundary) noexcept;

  [[nodiscard]] bool periodic_save_is_due(std::uint64_t steps) const noexcept {
    return rules_.every_steps > 0 && steps >= next_periodic_step_;
  }
  [[nodiscard]] bool saves_by_steps() const noexcept { return rules_.every_steps > 0; }
  /// At the next multiple: steps may pass it, if the program is not here at every one.
  void plan_periodic_save(std::uint64_t steps) noexcept;

  /// A save took so long, and stopped the program for @p blocked of it.
  void note_save(std::chrono::duration<double> seconds, std::chrono::duration<double> blocked) {
    save_times_.add(seconds);
    blocked_times_.add(blocked);
  }
  /// By what the saves so far have cost.
  [[nodiscard]] std::chrono::duration<double> automatic_interval() const {
    return handler::automatic_interval(blocked_times_.upper_estimate());
  }
  [[nodiscard]] bool save_time_is_known() const noexcept { return !save_times_.empty(); }

  /// Within a grace period the program continues for now, and saves once more before the end.
  void train_on() noexcept { trains_on_ = true; }
  void stop_training() noexcept { trains_on_ = false; }
  [[nodiscard]] bool trains_on() const noexcept { return trains_on_; }
  /// What the last result says of the time that is left.
  [[nodiscard]] GraceInputs grace() const;
  [[nodiscard]] bool has_check_result() const noexcept { return check_result_.has_value(); }

 private:
  SaveRules rules_;
  std::optional<cluster::CheckResult> check_result_;  ///< the latest
  std::optional<Decision> decision_;
  std::optional<cluster::BoundaryIndex> commit_at_;
  std::uint64_t next_periodic_step_ = 0;
  bool trains_on_ = false;
  DurationHistory save_times_;
  DurationHistory blocked_times_;
};

}  // namespace reprieve::handler
