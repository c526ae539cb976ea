// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/agreement_vector.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace reprieve::cluster {

namespace {

enum Slot : std::size_t {
  kActAt,
  kNegatedIndex,
  kIndex,
  kNoticeIndex,
  kNoticeRank,
  kFailedRank,
  kClosingIndex,
  kNotClosing,
  kNotConfirming,
  kRequested,
  kNegatedTimeLeft,
  kStepTime,
  kNegatedCheckCost,
  kNegatedWritten,
};

constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::min();

/// Under MAX the lowest rank has the greatest mark; zero means no rank.
std::int64_t rank_mark(bool set, int rank, int size) { return set ? size - rank : 0; }
int marked_rank(std::int64_t mark, int size) { return mark == 0 ? -1 : size - static_cast<int>(mark); }

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

/// A check may cost one part in so many of the time of the steps.
constexpr std::int64_t kCostShare = 100;

/// The stride grows at most so much from one check to the next: a few short steps do not predict the next ones.
/// It shrinks at once.
constexpr std::int64_t kMaxGrowth = 4;

/// While something is left of the percent of long steps: close enough for the long steps that may come again.
constexpr std::int64_t kCloseStride = 3;

/// A notice that just missed a check waits for the next one, for the boundary where all act on it, and for the end of a
/// step on both sides: with two checks in the longest wait, all that fits into it.
constexpr std::int64_t kChecksPerWait = 2;

/// The percent of the last minute: what lies further back says nothing of what comes.
constexpr nanoseconds kMostKept = nanoseconds(60s) / kCostShare;

/// Longer steps, and pauses of hours, count as a minute: nothing overflows.
constexpr nanoseconds kLongestStep = 60s;

/// Above so many times what is usual, what was measured counts: many ranks on few cores, a slow network.
constexpr std::int64_t kUnusual = 3;

/// Measured with two ranks. The longer the step, the colder are the caches that a check meets.
struct UsualCost {
  nanoseconds step;
  nanoseconds cost;
};
constexpr std::array<UsualCost, 5> kUsualCosts{
    {{1us, 1400ns}, {10us, 2us}, {100us, 5500ns}, {1ms, 15us}, {10ms, 40us}}};

}  // namespace

AgreementVector encode(const Contribution& contribution, int rank, int size) {
  const Contribution& c = contribution;
  AgreementVector vector{};
  vector[kActAt] = c.index + c.lag;
  vector[kNegatedIndex] = -c.index;
  vector[kIndex] = c.index;
  vector[kNoticeIndex] = c.notice ? c.index : -1;
  vector[kNoticeRank] = rank_mark(c.notice, rank, size);
  vector[kFailedRank] = rank_mark(c.failed, rank, size);
  vector[kClosingIndex] = c.closing ? c.index : -1;
  vector[kNotClosing] = c.closing ? 0 : 1;
  vector[kNotConfirming] = c.confirming ? 0 : 1;
  vector[kRequested] = static_cast<std::int64_t>(c.requested);
  vector[kNegatedTimeLeft] = c.time_left ? -c.time_left->count() : kNoDeadline;
  vector[kStepTime] = c.step_time.count();
  vector[kNegatedCheckCost] = -c.check_cost.count();
  vector[kNegatedWritten] = -c.written;
  return vector;
}

CheckResult decode(const AgreementVector& vector, int size) {
  CheckResult check_result;
  check_result.act_at = vector[kActAt];
  check_result.first_index = -vector[kNegatedIndex];
  check_result.last_index = vector[kIndex];
  check_result.notice_index = vector[kNoticeIndex];
  check_result.notice_rank = marked_rank(vector[kNoticeRank], size);
  check_result.failed_rank = marked_rank(vector[kFailedRank], size);
  check_result.closing_index = vector[kClosingIndex];
  check_result.all_closing = vector[kNotClosing] == 0;
  check_result.all_confirming = vector[kNotConfirming] == 0;
  check_result.requested = static_cast<RequestedSave>(vector[kRequested]);
  if (vector[kNegatedTimeLeft] != kNoDeadline) {
    check_result.time_left = std::chrono::milliseconds(-vector[kNegatedTimeLeft]);
  }
  check_result.step_time = std::chrono::nanoseconds(vector[kStepTime]);
  check_result.check_cost = std::chrono::nanoseconds(-vector[kNegatedCheckCost]);
  check_result.written = -vector[kNegatedWritten];
  return check_result;
}

nanoseconds CheckPlan::usual_cost(nanoseconds step_time) {
  if (step_time <= kUsualCosts.front().step) {
    return kUsualCosts.front().cost;
  }
  for (std::size_t i = 1; i < kUsualCosts.size(); ++i) {
    const auto& [step, cost] = kUsualCosts[i];
    const auto& [step_before, cost_before] = kUsualCosts[i - 1];
    if (step_time <= step) {
      return cost_before + (cost - cost_before) * (step_time - step_before).count() / (step - step_before).count();
    }
  }
  return kUsualCosts.back().cost;
}

/// The least of the recent ones: a rank that lost its core for a moment made a single one dear, or all of a moment's.
nanoseconds CheckPlan::cost_of_a_check(const CheckFacts& facts) {
  if (facts.check_cost > 0ns) {
    costs_[costs_known_++ % kKeptCosts] = std::min(facts.check_cost, kLongestStep);
  }
  const nanoseconds usual = usual_cost(facts.step_time);
  if (costs_known_ < kKeptCosts) {
    return usual;
  }
  const nanoseconds measured = *std::min_element(costs_.begin(), costs_.end());
  return measured > kUnusual * usual ? measured : usual;
}

void CheckPlan::take(const CheckFacts& facts) {
  if (std::exchange(begins_, false)) {
    return;
  }
  const nanoseconds step_time = std::clamp(facts.step_time, nanoseconds(1), kLongestStep);
  const nanoseconds cost = cost_of_a_check({step_time, facts.check_cost, facts.boundaries});
  const std::int64_t boundaries = std::clamp<std::int64_t>(facts.boundaries, 0, kMaxStride);
  const nanoseconds percent = std::min(boundaries * step_time / kCostShare, kMostKept);

  std::int64_t wanted = std::min((kCostShare * cost + step_time - nanoseconds(1)) / step_time, kMaxStride);
  if (wanted == 1) {
    kept_ = std::clamp(kept_ + percent - cost, nanoseconds(0), kMostKept);
  } else {
    kept_ -= std::clamp(cost - percent, nanoseconds(0), kept_);
    wanted = kept_ > cost ? std::min(wanted, kCloseStride) : wanted;
  }
  wanted = std::clamp<std::int64_t>(longest_wait_ / kChecksPerWait / step_time, 1, wanted);
  stride_ = std::min(wanted, kMaxGrowth * stride_);
}

void CheckPlan::restart() noexcept {
  stride_ = 1;
  begins_ = true;
}

}  // namespace reprieve::cluster
