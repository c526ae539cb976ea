// SPDX-License-Identifier: BSD-3-Clause
#include "handler/save_policy.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace reprieve::handler {

void DurationHistory::add(std::chrono::duration<double> value) {
  recent_.push_back(value.count());
  if (recent_.size() > kKept) {
    recent_.pop_front();
  }
}

std::chrono::duration<double> DurationHistory::upper_estimate() const {
  if (recent_.empty()) {
    return std::chrono::duration<double>::zero();
  }
  std::vector<double> sorted(recent_.begin(), recent_.end());
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(sorted.size())));
  return std::chrono::duration<double>(sorted[rank - 1]);
}

std::chrono::duration<double> final_save_lead(const GraceInputs& in) {
  return in.margin + in.save_time + in.check_interval + 2.0 * in.step_time;
}

bool final_save_is_due(const GraceInputs& in) { return in.time_left <= final_save_lead(in); }

bool room_for_another_save(const GraceInputs& in) {
  return in.time_left > in.margin + in.save_time + in.check_interval + 3.0 * in.step_time;
}

bool save_fits(std::chrono::duration<double> grace_period, std::chrono::duration<double> save_time,
               std::chrono::duration<double> margin) {
  return save_time + margin <= grace_period;
}

std::chrono::duration<double> automatic_interval(std::chrono::duration<double> cost) {
  using Seconds = std::chrono::duration<double>;
  const Seconds best(young_interval_s(cost.count(), Seconds(kAssumedMtbf).count()));
  return std::max({best, cost / kMostSaving, Seconds(kLeastInterval)});
}

void SavePolicy::decide(const cluster::CheckResult& check_result, const SaveSituation& situation) {
  using Kind = Decision::Kind;
  note(check_result);
  // A result from before the save began counts fewer.
  if (situation.background_is_pending && !commit_at_ && check_result.written == situation.background_begun) {
    commit_at_ = check_result.act_at;
  }
  if (preemption_is_near()) {
    return;
  }
  if (check_result.notice_rank >= 0 && !situation.notice_is_agreed) {
    decision_ = Decision{Kind::preemption, check_result.act_at, check_result.notice_rank, SaveReason::Kind::preemption};
  } else if (trains_on_ && final_save_is_due(grace())) {
    decision_ = Decision{Kind::final_save, check_result.act_at, check_result.notice_rank, SaveReason::Kind::preemption};
  } else if (check_result.requested != cluster::RequestedSave::none && !decision_ && !situation.notice_is_agreed) {
    const bool is_user = check_result.requested == cluster::RequestedSave::user;
    const bool is_near = check_result.requested == cluster::RequestedSave::local;
    decision_ = Decision{is_near ? Kind::local_copy : Kind::requested_save, check_result.act_at, -1,
                         is_user ? SaveReason::Kind::user : SaveReason::Kind::periodic};
  }
}

Decision SavePolicy::take_decision() {
  const Decision taken = decision_.value_or(Decision{});
  decision_.reset();
  return taken;
}

void SavePolicy::bring_forward(cluster::BoundaryIndex boundary) noexcept {
  if (decision_) {
    decision_->at = std::min(decision_->at, boundary);
  }
  if (commit_at_) {
    commit_at_ = std::min(*commit_at_, boundary);
  }
}

void SavePolicy::plan_periodic_save(std::uint64_t steps) noexcept {
  if (rules_.every_steps > 0) {
    next_periodic_step_ = (steps / rules_.every_steps + 1) * rules_.every_steps;
  }
}

GraceInputs SavePolicy::grace() const {
  const cluster::CheckResult check_result = check_result_.value_or(cluster::CheckResult{});
  return {check_result.time_left.value_or(std::chrono::milliseconds(0)), save_times_.upper_estimate(),
          check_result.step_time, cluster::kCheckInterval, rules_.grace_margin};
}

}  // namespace reprieve::handler
