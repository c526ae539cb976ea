// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cluster/agreement_vector.hpp"

namespace reprieve::cluster {
namespace {

using namespace std::chrono_literals;

Verdict fold(const std::vector<Contribution>& contributions) {
  const int size = static_cast<int>(contributions.size());
  AgreementVector all = encode(contributions[0], 0, size);
  for (int rank = 1; rank < size; ++rank) {
    const AgreementVector mine = encode(contributions[static_cast<std::size_t>(rank)], rank, size);
    std::transform(all.begin(), all.end(), mine.begin(), all.begin(), [](auto a, auto b) { return std::max(a, b); });
  }
  return decode(all, size);
}

TEST(AgreementVector, QuietRanksGiveAQuietVerdict) {
  const Verdict verdict = fold({{.index = 7, .lag = 2}, {.index = 8}, {.index = 6, .lag = 1}});
  EXPECT_EQ(verdict.act_at, 9);
  EXPECT_EQ(verdict.first_index, 6);
  EXPECT_EQ(verdict.last_index, 8);
  EXPECT_EQ(verdict.notice_rank, -1);
  EXPECT_EQ(verdict.notice_index, -1);
  EXPECT_EQ(verdict.failed_rank, -1);
  EXPECT_EQ(verdict.closing_index, -1);
  EXPECT_FALSE(verdict.all_closing);
  EXPECT_FALSE(verdict.all_confirming);
  EXPECT_EQ(verdict.requested, RequestedSave::none);
  EXPECT_FALSE(verdict.time_left);
}

TEST(AgreementVector, TheGreatestStepWithANoticeAndTheLowestRankCount) {
  const Verdict verdict = fold({{.index = 5}, {.index = 6, .notice = true}, {.index = 9, .notice = true}});
  EXPECT_EQ(verdict.notice_index, 9);
  EXPECT_EQ(verdict.notice_rank, 1);
  EXPECT_GE(verdict.act_at, verdict.notice_index);
}

TEST(AgreementVector, TheLowestFailingRankIsHeard) {
  EXPECT_EQ(fold({{.index = 1}, {.index = 1}, {.index = 1, .failed = true}, {.index = 1, .failed = true}}).failed_rank,
            2);
  EXPECT_EQ(fold({{.index = 1, .failed = true}}).failed_rank, 0);
}

TEST(AgreementVector, TheEarliestDeadlineCounts) {
  const Verdict verdict = fold({{.index = 1, .time_left = 5000ms}, {.index = 1}, {.index = 1, .time_left = 300ms}});
  EXPECT_EQ(verdict.time_left, 300ms);
}

TEST(AgreementVector, ADeadlineThatHasPassedIsStillADeadline) {
  EXPECT_EQ(fold({{.index = 1, .time_left = -20ms}, {.index = 1, .time_left = 10ms}}).time_left, -20ms);
  EXPECT_EQ(fold({{.index = 1, .time_left = 0ms}, {.index = 1}}).time_left, 0ms);
}

TEST(AgreementVector, ClosingAndConfirmingNeedAllRanks) {
  EXPECT_TRUE(fold({{.index = 3, .closing = true}, {.index = 3, .closing = true}}).all_closing);
  const Verdict mixed = fold({{.index = 3, .closing = true}, {.index = 4, .confirming = true}});
  EXPECT_FALSE(mixed.all_closing);
  EXPECT_FALSE(mixed.all_confirming);
  EXPECT_EQ(mixed.closing_index, 3);
  EXPECT_TRUE(fold({{.index = 4, .confirming = true}, {.index = 4, .confirming = true}}).all_confirming);
}

TEST(AgreementVector, TheStrongestRequestAndTheSlowestStepCount) {
  const Verdict verdict = fold({{.index = 1, .requested = RequestedSave::periodic, .step_time = 5ms},
                                {.index = 1, .requested = RequestedSave::user, .step_time = 9ms}});
  EXPECT_EQ(verdict.requested, RequestedSave::user);
  EXPECT_EQ(verdict.step_time, 9ms);
}

TEST(AgreementVector, TheRankThatWaitedLeastTellsWhatACheckCosts) {
  EXPECT_EQ(fold({{.index = 1, .check_cost = 5us}, {.index = 1, .check_cost = 2us}}).check_cost, 2us);
  EXPECT_EQ(fold({{.index = 1, .check_cost = 5us}, {.index = 1}}).check_cost, 0us) << "one rank does not know it yet";
}

}  // namespace
}  // namespace reprieve::cluster
