// SPDX-License-Identifier: BSD-3-Clause
#include "handler/save_policy.hpp"

#include <algorithm>
#include <utility>

namespace reprieve::handler {

void SavePolicy::decide(const cluster::Verdict& verdict, const SaveSituation& situation) {
  using Kind = Decision::Kind;
  note(verdict);
  // A verdict from before the save began counts fewer.
  if (situation.background_is_pending && !commit_at_ && verdict.written == situation.background_begun) {
    commit_at_ = verdict.act_at;
  }
  if (preemption_is_near()) {
    return;
  }
  if (verdict.notice_rank >= 0 && !situation.notice_is_agreed) {
    decision_ = Decision{Kind::preemption, verdict.act_at, verdict.notice_rank, SaveReason::Kind::preemption};
  } else if (trains_on_ && final_save_is_due(grace())) {
    decision_ = Decision{Kind::final_save, verdict.act_at, verdict.notice_rank, SaveReason::Kind::preemption};
  } else if (verdict.requested != cluster::RequestedSave::none && !decision_ && !situation.notice_is_agreed) {
    const bool is_user = verdict.requested == cluster::RequestedSave::user;
    const bool is_near = verdict.requested == cluster::RequestedSave::near;
    decision_ = Decision{is_near ? Kind::near_copy : Kind::requested_save, verdict.act_at, -1,
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
  const cluster::Verdict verdict = verdict_.value_or(cluster::Verdict{});
  return {verdict.time_left.value_or(std::chrono::milliseconds(0)), save_times_.upper_estimate(), verdict.step_time,
          rules_.check_interval, rules_.grace_margin};
}

}  // namespace reprieve::handler
