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

// How far apart checks are: from numbers alone.

using std::chrono::nanoseconds;

constexpr nanoseconds kInterval = 16ms;

/// The plan after many checks of steps of one length.
CheckPlan settled(nanoseconds step_time, nanoseconds check_cost = 0ns, nanoseconds interval = kInterval) {
  CheckPlan plan(interval);
  for (int i = 0; i < 100; ++i) {
    plan.take({step_time, check_cost, plan.stride()});
  }
  return plan;
}

TEST(CheckPlan, ChecksCostOnePercentOfTheSteps) {
  for (nanoseconds step = 2us; step < 10ms; step += step / 7) {
    const CheckPlan plan = settled(step);
    EXPECT_LE(CheckPlan::usual_cost(step), plan.stride() * step / 100) << step.count();
    if (plan.stride() > 1) {
      EXPECT_GT(CheckPlan::usual_cost(step), (plan.stride() - 1) * step / 100) << step.count();
    }
  }
}

TEST(CheckPlan, StrideAndLagOfCommonSteps) {
  const auto expect = [](nanoseconds step, std::int64_t stride, std::int64_t lag) {
    const CheckPlan plan = settled(step);
    EXPECT_EQ(plan.stride(), stride) << step.count();
    EXPECT_EQ(plan.lag(), lag) << step.count();
  };
  expect(1us, 128, 25);
  expect(10us, 20, 4);
  expect(100us, 6, 1);
  expect(1ms, 2, 0);
  expect(2ms, 1, 0);
  expect(10s, 1, 0);
}

TEST(CheckPlan, WhatACheckIsMeasuredToCostCountsWhereItIsUnusual) {
  EXPECT_EQ(settled(10us, 5us).stride(), 20);  // the usual noise
  EXPECT_EQ(settled(10us, 7us).stride(), 70);
  EXPECT_EQ(settled(10us, 300us).stride(), CheckPlan::kMaxStride);
  EXPECT_EQ(settled(1ms, 60us).stride(), 6);
}

TEST(CheckPlan, ACheckThatLostItsCoreForAMomentDoesNotCount) {
  CheckPlan plan = settled(10us, 2us);
  for (int i = 0; i < 7; ++i) {
    plan.take({10us, 10ms, plan.stride()});
    EXPECT_EQ(plan.stride(), 20);
  }
}

TEST(CheckPlan, TwoChecksFitIntoTheIntervalWhateverTheyCost) {
  EXPECT_EQ(settled(1ms, 100us).stride(), 8);
  EXPECT_EQ(settled(1ms, 100ms).stride(), 8);
  EXPECT_EQ(settled(1ms, 100ms, 0ns).stride(), 1);
  EXPECT_EQ(settled(10us, 2us, 100us).stride(), 5);
}

TEST(CheckPlan, GrowsByFourAtMostAndShrinksAtOnce) {
  CheckPlan plan(kInterval);
  plan.take({10us, 0ns, 1});
  EXPECT_EQ(plan.stride(), 4);
  plan.take({10us, 0ns, 4});
  EXPECT_EQ(plan.stride(), 16);
  plan.take({10us, 0ns, 16});
  EXPECT_EQ(plan.stride(), 20);
  plan.take({10ms, 0ns, 20});
  EXPECT_EQ(plan.stride(), 1);
}

TEST(CheckPlan, BeginsAnewWithAPhase) {
  CheckPlan plan = settled(10us);
  plan.restart();
  EXPECT_EQ(plan.stride(), 1);
  plan.take({10us, 0ns, 1});  // tells of the steps before
  EXPECT_EQ(plan.stride(), 1);
  plan.take({1s, 0ns, 1});
  EXPECT_EQ(plan.stride(), 1);
}

TEST(CheckPlan, WhatLongStepsLeaveKeepsChecksCloseForAWhile) {
  CheckPlan plan = settled(200ms);
  std::int64_t close = 0;
  nanoseconds spent{0};
  plan.take({20us, 0ns, 1});
  while (plan.stride() <= 3) {
    plan.take({20us, 0ns, plan.stride()});
    close += plan.stride();
    spent += CheckPlan::usual_cost(20us);
  }
  EXPECT_GT(close, 100'000);
  EXPECT_LT(spent, 1s) << "the percent of the last minute, and that of the steps themselves";
}

TEST(CheckPlan, AShortPauseAmongShortStepsChangesLittle) {
  CheckPlan plan = settled(10us);
  plan.take({1ms, 0ns, 20});  // one step took 20 ms
  EXPECT_LE(plan.stride(), 2);
  for (int i = 0; i < 3; ++i) {
    plan.take({10us, 0ns, plan.stride()});
  }
  EXPECT_EQ(plan.stride(), 20);
}

TEST(CheckPlan, StrangeNumbersDoNoHarm) {
  CheckPlan plan(60s);
  const nanoseconds longest = nanoseconds::max();
  for (const nanoseconds step : {0ns, nanoseconds(-5), longest, 1ns, nanoseconds::min()}) {
    for (const nanoseconds cost : {0ns, nanoseconds(-5), longest}) {
      for (const std::int64_t boundaries : {INT64_MIN, std::int64_t{0}, INT64_MAX}) {
        plan.take({step, cost, boundaries});
        EXPECT_GE(plan.stride(), 1);
        EXPECT_LE(plan.stride(), CheckPlan::kMaxStride);
      }
    }
  }
}

}  // namespace
}  // namespace reprieve::cluster
