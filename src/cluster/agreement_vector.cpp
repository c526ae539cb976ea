// SPDX-License-Identifier: BSD-3-Clause
#include "cluster/agreement_vector.hpp"

#include <limits>

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

Verdict decode(const AgreementVector& vector, int size) {
  Verdict verdict;
  verdict.act_at = vector[kActAt];
  verdict.first_index = -vector[kNegatedIndex];
  verdict.last_index = vector[kIndex];
  verdict.notice_index = vector[kNoticeIndex];
  verdict.notice_rank = marked_rank(vector[kNoticeRank], size);
  verdict.failed_rank = marked_rank(vector[kFailedRank], size);
  verdict.closing_index = vector[kClosingIndex];
  verdict.all_closing = vector[kNotClosing] == 0;
  verdict.all_confirming = vector[kNotConfirming] == 0;
  verdict.requested = static_cast<RequestedSave>(vector[kRequested]);
  if (vector[kNegatedTimeLeft] != kNoDeadline) {
    verdict.time_left = std::chrono::milliseconds(-vector[kNegatedTimeLeft]);
  }
  verdict.step_time = std::chrono::nanoseconds(vector[kStepTime]);
  verdict.check_cost = std::chrono::nanoseconds(-vector[kNegatedCheckCost]);
  verdict.written = -vector[kNegatedWritten];
  return verdict;
}

}  // namespace reprieve::cluster
