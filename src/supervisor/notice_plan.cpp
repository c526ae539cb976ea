// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/notice_plan.hpp"

#include <algorithm>

namespace reprieve::supervisor {

namespace {

/// The pause after the first notice; it doubles up to the longest.
constexpr std::chrono::seconds kFirstPause{1};
constexpr int kMaxPauseDoublings = 4;

}  // namespace

void NoticePlan::request(Clock::time_point now) {
  if (!requested_) {
    requested_ = now;
  }
}

void NoticePlan::begin_run() { sent_ = 0; }

bool NoticePlan::send_is_due(const RunProgress& progress, Clock::time_point now) {
  if (!requested_ || progress.notice_arrived()) {
    return false;
  }
  const bool says_nothing = progress.chiefs().empty() && now - *requested_ >= patience_;
  if (!progress.ready() && !says_nothing) {
    return false;
  }
  if (sent_ > 0 && now - last_sent_ < kFirstPause * (1 << std::min(sent_ - 1, kMaxPauseDoublings))) {
    return false;
  }
  ++sent_;
  last_sent_ = now;
  return true;
}

}  // namespace reprieve::supervisor
