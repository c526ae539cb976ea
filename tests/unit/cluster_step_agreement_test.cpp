// SPDX-License-Identifier: BSD-3-Clause

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "cluster/agreement_vector.hpp"
#include "cluster/step_agreement.hpp"
#include "reprieve/error.hpp"
#include "support/shared_reductions.hpp"

namespace reprieve::cluster {
namespace {

using namespace std::chrono_literals;

CheckResult fold(const std::vector<Contribution>& contributions) {
  const int size = static_cast<int>(contributions.size());
  AgreementVector all = encode(contributions[0], 0, size);
  for (int rank = 1; rank < size; ++rank) {
    const AgreementVector mine = encode(contributions[static_cast<std::size_t>(rank)], rank, size);
    std::transform(all.begin(), all.end(), mine.begin(), all.begin(), [](auto a, auto b) { return std::max(a, b); });
  }
  return decode(all, size);
}

TEST(AgreementVector, QuietRanksGiveAQuietResult) {
  const CheckResult check_result = fold({{.index = 7, .lag = 2}, {.index = 8}, {.index = 6, .lag = 1}});
  EXPECT_EQ(check_result.act_at, 9);
  EXPECT_EQ(check_result.first_index, 6);
  EXPECT_EQ(check_result.last_index, 8);
  EXPECT_EQ(check_result.notice_rank, -1);
  EXPECT_EQ(check_result.notice_index, -1);
  EXPECT_EQ(check_result.failed_rank, -1);
  EXPECT_EQ(check_result.closing_index, -1);
  EXPECT_FALSE(check_result.all_closing);
  EXPECT_FALSE(check_result.all_confirming);
  EXPECT_EQ(check_result.requested, RequestedSave::none);
  EXPECT_FALSE(check_result.time_left);
}

TEST(AgreementVector, TheGreatestStepWithANoticeAndTheLowestRankCount) {
  const CheckResult check_result = fold({{.index = 5}, {.index = 6, .notice = true}, {.index = 9, .notice = true}});
  EXPECT_EQ(check_result.notice_index, 9);
  EXPECT_EQ(check_result.notice_rank, 1);
  EXPECT_GE(check_result.act_at, check_result.notice_index);
}

TEST(AgreementVector, TheErrorOfTheLowestFailingRankIsThrown) {
  EXPECT_EQ(fold({{.index = 1}, {.index = 1}, {.index = 1, .failed = true}, {.index = 1, .failed = true}}).failed_rank,
            2);
  EXPECT_EQ(fold({{.index = 1, .failed = true}}).failed_rank, 0);
}

TEST(AgreementVector, TheEarliestDeadlineCountsEvenIfItHasPassed) {
  EXPECT_EQ(fold({{.index = 1, .time_left = 5000ms}, {.index = 1}, {.index = 1, .time_left = 300ms}}).time_left, 300ms);
  EXPECT_EQ(fold({{.index = 1, .time_left = -20ms}, {.index = 1, .time_left = 10ms}}).time_left, -20ms);
  EXPECT_EQ(fold({{.index = 1, .time_left = 0ms}, {.index = 1}}).time_left, 0ms);
}

TEST(AgreementVector, ClosingAndConfirmingNeedAllRanks) {
  EXPECT_TRUE(fold({{.index = 3, .closing = true}, {.index = 3, .closing = true}}).all_closing);
  const CheckResult mixed = fold({{.index = 3, .closing = true}, {.index = 4, .confirming = true}});
  EXPECT_FALSE(mixed.all_closing);
  EXPECT_FALSE(mixed.all_confirming);
  EXPECT_EQ(mixed.closing_index, 3);
  EXPECT_TRUE(fold({{.index = 4, .confirming = true}, {.index = 4, .confirming = true}}).all_confirming);
}

TEST(AgreementVector, TheStrongestRequestAndTheSlowestStepCount) {
  const CheckResult check_result = fold({{.index = 1, .requested = RequestedSave::periodic, .step_time = 5ms},
                                         {.index = 1, .requested = RequestedSave::user, .step_time = 9ms}});
  EXPECT_EQ(check_result.requested, RequestedSave::user);
  EXPECT_EQ(check_result.step_time, 9ms);
}

TEST(AgreementVector, TheRankThatWaitedLeastShowsWhatACheckCosts) {
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

TEST(CheckPlan, BeginsAgainWithAPhase) {
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

// The agreement protocol with threads as ranks and reductions in memory, so that schedules which MPI rarely shows can
// be forced.

using test::SharedReductions;
using test::ThreadChannel;

/// One rank of a simulated program: a loop of boundaries that acts on a notice as the handler does.
struct SimulatedRank {
  std::function<void(BoundaryIndex, SimulatedRank&)> step{};  ///< the work between boundaries
  bool notice = false;
  RequestedSave requested = RequestedSave::none;
  BoundaryIndex last_boundary = 100'000;  ///< closes after it
  BoundaryIndex fails_at = -1;            ///< its step after this boundary fails
  BoundaryIndex phase_before = -1;        ///< begin_phase() before this boundary
  nanoseconds check_cost{0};              ///< of every reduction
  bool moves_clock = false;               ///< `now` is its time, which steps and checks alone move
  StepAgreement::Clock::time_point now{};
  // Results.
  BoundaryIndex acted_at = -1;
  BoundaryIndex notice_index = -1;
  BoundaryIndex heard_failure_at = -1;
  int heard_failure_of = -1;
  nanoseconds spent{0};  ///< in checks
  std::string error{};
  bool closed = false;
};

class CostlyChannel final : public ThreadChannel {
 public:
  CostlyChannel(SharedReductions& shared, SimulatedRank& plan) : ThreadChannel(shared), plan_(plan) {}
  void post(const AgreementVector& mine) override {
    ThreadChannel::post(mine);
    plan_.now += plan_.check_cost;
    plan_.spent += plan_.check_cost;
  }

 private:
  SimulatedRank& plan_;
};

class RankProgram {
 public:
  RankProgram(SharedReductions& shared, int rank, int size, SimulatedRank& plan)
      : plan_(plan),
        channel_(shared, plan),
        agreement_(
            channel_, rank, size,
            {16ms, 60s, [&plan] { return plan.moves_clock ? plan.now : StepAgreement::Clock::now(); }},
            [&plan] {
              LocalView view;
              view.notice = plan.notice;
              view.requested = plan.requested;
              return view;
            },
            [this](const CheckResult& v) { hear(v); }) {}

  void run() {
    try {
      while (agreement_.index() < plan_.last_boundary) {
        if (agreement_.index() + 1 == plan_.phase_before) {
          agreement_.begin_phase();
          act_at_ = act_at_ ? std::min(*act_at_, agreement_.index() + 1) : act_at_;
        }
        agreement_.at_boundary();
        if (act_at_ && agreement_.index() >= *act_at_) {
          const CheckResult met = agreement_.confirm();
          hear(met);
          agreement_.check_met(met);
          plan_.acted_at = agreement_.index();
          return;
        }
        if (agreement_.index() == plan_.fails_at) {
          plan_.heard_failure_of = agreement_.fail(60s).failed_rank;
          return;
        }
        plan_.step(agreement_.index(), plan_);
      }
      const CheckResult check_result = agreement_.close();
      plan_.closed = check_result.all_closing;
      plan_.heard_failure_of = check_result.failed_rank;
    } catch (const std::exception& error) {
      plan_.error = error.what();
    }
  }

 private:
  void hear(const CheckResult& check_result) {
    if (check_result.failed_rank >= 0) {
      plan_.heard_failure_of = check_result.failed_rank;
      plan_.heard_failure_at = agreement_.index();
      throw std::runtime_error("heard a failure");
    }
    if ((check_result.notice_rank >= 0 || check_result.requested != RequestedSave::none) && !act_at_) {
      act_at_ = check_result.act_at;
      plan_.notice_index = check_result.notice_index;
    }
  }

  SimulatedRank& plan_;
  CostlyChannel channel_;
  StepAgreement agreement_;
  std::optional<BoundaryIndex> act_at_;
};

void run_all(std::vector<SimulatedRank>& ranks) {
  SharedReductions shared(static_cast<int>(ranks.size()));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&shared, &ranks, rank] {
      RankProgram(shared, static_cast<int>(rank), static_cast<int>(ranks.size()), ranks[rank]).run();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

/// So many ranks with one kind of step.
template <class Step>
std::vector<SimulatedRank> ranks_that(std::size_t count, Step step) {
  return std::vector<SimulatedRank>(count, SimulatedRank{.step = step});
}

constexpr auto kNoWork = [](BoundaryIndex, SimulatedRank&) {};
constexpr auto kSomeWork = [](BoundaryIndex, SimulatedRank&) { std::this_thread::sleep_for(100us); };

class StepAgreementSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, StepAgreementSizes, testing::Values(1, 2, 3, 5));

TEST_P(StepAgreementSizes, AllRanksActAtOneBoundaryAfterTheNotice) {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    std::vector<SimulatedRank> ranks(static_cast<std::size_t>(GetParam()));
    const SimulatedRank& source = ranks[random() % ranks.size()];
    const auto notice_from = static_cast<BoundaryIndex>(random() % 60);
    for (auto& rank : ranks) {
      // Uncoupled ranks of different speeds that also change their speed.
      const auto pause = std::chrono::microseconds(random() % 300);
      const bool is_source = &rank == &source;
      rank.step = [=](BoundaryIndex index, SimulatedRank& self) {
        self.notice = is_source && index >= notice_from;
        std::this_thread::sleep_for(index % 7 == 0 ? 4 * pause : pause);
      };
    }
    run_all(ranks);
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank.error, "");
      EXPECT_EQ(rank.acted_at, ranks[0].acted_at);
      EXPECT_GE(rank.acted_at, rank.notice_index);
      EXPECT_GE(rank.notice_index, notice_from);
    }
  }
}

TEST_P(StepAgreementSizes, ANoticeBeforeTheFirstBoundaryIsActedOnThere) {
  auto ranks = ranks_that(static_cast<std::size_t>(GetParam()), kNoWork);
  ranks.back().notice = true;
  run_all(ranks);
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.error, "");
    EXPECT_EQ(rank.acted_at, 1);
  }
}

TEST(StepAgreement, RanksThatMeetInTheApplicationWhileOthersAreBehindDoNotDeadlock) {
  // Fast ranks run ahead to the application's meeting point, where they wait for the slow one. None of them may be
  // waited for by the slow rank at an earlier boundary.
  for (int round = 0; round < 10; ++round) {
    std::vector<SimulatedRank> ranks(3);
    std::barrier<> meeting(3);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].step = [i, &meeting](BoundaryIndex index, SimulatedRank&) {
        if (i == 0 && index % 10 == 0) {
          std::this_thread::sleep_for(2ms);
        }
        if (index % 100 == 0) {
          meeting.arrive_and_wait();
        }
      };
      ranks[i].last_boundary = 1000;
    }
    run_all(ranks);
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank.error, "");
      EXPECT_TRUE(rank.closed);
    }
  }
}

TEST(StepAgreement, AllRanksHearOfAFailureWhereverTheyAre) {
  for (const BoundaryIndex last : {100'000, 10}) {  // in the second case the others have closed
    auto ranks = ranks_that(4, kSomeWork);
    for (auto& rank : ranks) {
      rank.last_boundary = last;
    }
    ranks[2].fails_at = std::min<BoundaryIndex>(last, 40);
    run_all(ranks);
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank.heard_failure_of, 2);
      EXPECT_EQ(rank.acted_at, -1);
      EXPECT_FALSE(rank.closed);
    }
  }
}

TEST(StepAgreement, OfTwoFailuresAllRanksHearTheSameOne) {
  for (int round = 0; round < 20; ++round) {
    auto ranks = ranks_that(3, kNoWork);
    ranks[1].fails_at = 500;
    ranks[2].fails_at = 500 + round;
    run_all(ranks);
    EXPECT_EQ(ranks[0].heard_failure_of, ranks[1].heard_failure_of);
    EXPECT_EQ(ranks[0].heard_failure_of, ranks[2].heard_failure_of);
    EXPECT_GT(ranks[0].heard_failure_of, 0);
  }
}

TEST(StepAgreement, AMissingRankIsAnErrorAfterTheLimit) {
  SharedReductions shared(2);
  ThreadChannel channel(shared);
  StepAgreement agreement(
      channel, 0, 2, {10ms, 50ms}, [] { return LocalView{}; }, [](const CheckResult&) {});
  EXPECT_THROW(agreement.at_boundary(), UnresponsiveError);
}

// How many step boundaries lie between a notice and its save when steps change their length: threads as ranks, with
// clocks that only their steps move, so that every run of these tests is the same.

using StepLength = std::function<nanoseconds(BoundaryIndex)>;

/// What happens in one run of the program, and where.
struct Story {
  StepLength length{};              ///< of the step after a boundary
  BoundaryIndex event_at = 0;       ///< in the step after this boundary
  BoundaryIndex phase_before = -1;  ///< begin_phase() before this boundary
  bool event_is_failure = false;    ///< of the last rank; else a notice at it
  nanoseconds save_every{0};        ///< the event is instead the moment when a periodic save is due
  nanoseconds check_cost{0};        ///< of every reduction
  BoundaryIndex last = 1'000'000;
};

/// What comes of it, on each rank.
std::vector<SimulatedRank> told(const Story& story, std::size_t size = 2) {
  const auto step = [&](BoundaryIndex index, SimulatedRank& self) { self.now += story.length(index); };
  auto ranks = ranks_that(size, step);
  ranks.front().step = [&](BoundaryIndex index, SimulatedRank& self) {
    step(index, self);
    if (story.save_every > 0ns && self.now.time_since_epoch() >= story.save_every) {
      self.requested = RequestedSave::periodic;
    }
  };
  for (SimulatedRank& rank : ranks) {
    rank.moves_clock = true;
    rank.check_cost = story.check_cost;
    rank.last_boundary = story.last;
    rank.phase_before = story.phase_before;
  }
  if (story.event_is_failure) {
    ranks.back().fails_at = story.event_at;
  } else {
    ranks.back().step = [&](BoundaryIndex index, SimulatedRank& self) {
      step(index, self);
      self.notice = self.notice || index == story.event_at;
    };
  }
  run_all(ranks);
  for (const SimulatedRank& rank : ranks) {
    if (!story.event_is_failure) {
      EXPECT_EQ(rank.error, "");
      EXPECT_EQ(rank.acted_at, ranks[0].acted_at);
    }
  }
  return ranks;
}

/// Boundaries from the notice to the save, the most of all ways in which the change and the notice can fall.
BoundaryIndex longest_wait(nanoseconds before, nanoseconds after, Story story = {}) {
  BoundaryIndex longest = 0;
  for (BoundaryIndex change = 1'000; change < 1'030; ++change) {
    for (const BoundaryIndex later : {-1, 0, 1, 2, 9, 40}) {
      story.length = [=](BoundaryIndex index) { return index < change ? before : after; };
      story.event_at = change + later;
      const SimulatedRank rank = told(story)[0];
      const BoundaryIndex acted_at = story.event_is_failure ? rank.heard_failure_at : rank.acted_at;
      EXPECT_GE(acted_at, story.event_at);
      longest = std::max(longest, acted_at - story.event_at);
    }
  }
  return longest;
}

TEST(Reaction, AfterAChangeToLongStepsTakesTheLongerTheShorterTheStepsWereBefore) {
  EXPECT_EQ(longest_wait(200ms, 200ms), 1);
  EXPECT_LE(longest_wait(1ms, 1s), 3);
  EXPECT_LE(longest_wait(100us, 1s), 7);
  EXPECT_LE(longest_wait(20us, 500ms), 24);
  const BoundaryIndex after_short_steps = longest_wait(10us, 1s);
  EXPECT_LE(after_short_steps, 24);
  EXPECT_GT(after_short_steps, 3) << "the steps before were not short";
}

TEST(Reaction, AnErrorOfAnotherRankIsHeardAsSoon) {
  EXPECT_LE(longest_wait(1ms, 1s, {.event_is_failure = true}), 3);
  EXPECT_LE(longest_wait(10us, 1s, {.event_is_failure = true}), 24);
}

TEST(Reaction, APeriodicSaveThatGetsDueIsMadeAsSoon) {
  for (const auto& [before, bound] : {std::pair{nanoseconds(1ms), 3}, std::pair{nanoseconds(10us), 24}}) {
    for (BoundaryIndex change = 1'000; change < 1'030; ++change) {
      Story story;
      story.length = [=, before = before](BoundaryIndex index) { return index < change ? before : nanoseconds(1s); };
      story.save_every = 1'000 * before + 500ms;  // in the first long step
      const BoundaryIndex acted_at = told(story)[0].acted_at;
      EXPECT_GE(acted_at, change);
      EXPECT_LE(acted_at - change, bound);
    }
  }
}

TEST(Reaction, AfterBeginPhaseWithinOneBoundary) {
  for (BoundaryIndex change = 1'000; change < 1'060; ++change) {
    for (const BoundaryIndex later : {0, 1, 2, 3, 10}) {
      Story story;
      story.length = [=](BoundaryIndex index) { return index < change ? nanoseconds(10us) : nanoseconds(1s); };
      story.phase_before = change;
      story.event_at = change + later;
      EXPECT_LE(told(story)[0].acted_at - story.event_at, 1);
    }
  }
}

/// Short and long steps by turns, with a notice at each place of the third round.
void expect_close_rounds(BoundaryIndex short_steps, nanoseconds short_step, BoundaryIndex long_steps,
                         nanoseconds long_step) {
  const BoundaryIndex round = short_steps + long_steps;
  Story story;
  story.length = [=](BoundaryIndex index) { return index % round < short_steps ? short_step : long_step; };
  for (BoundaryIndex at = short_steps - 2; at < round; ++at) {
    story.event_at = 2 * round + at;
    EXPECT_LE(told(story)[0].acted_at - story.event_at, 3) << "in step " << at << " of a round";
  }
}

TEST(Reaction, PhasesThatTakeTurnsAreWithinThreeBoundariesAfterTheFirstRound) {
  expect_close_rounds(3'000, 20us, 20, 500ms);
  expect_close_rounds(2'000, 10us, 5, 200ms);
  expect_close_rounds(200, 1ms, 10, 1s);
  expect_close_rounds(500, 100us, 3, 1s);
}

void expect_one_percent_in_checks(const Story& story) {
  const SimulatedRank rank = told(story)[0];
  EXPECT_LE(rank.spent, rank.now.time_since_epoch() / 90) << "a check costs " << story.check_cost.count() << " ns";
}

TEST(Reaction, ChecksTakeOnePercentOfStepsOfAnyConstantLength) {
  for (const auto& [step, cost] :
       {std::pair{10us, 2us}, {100us, 5us}, {1000us, 15us}, {10000us, 37us}, {200us, 40us}}) {
    const auto length = [step = step](BoundaryIndex) { return nanoseconds(step); };
    expect_one_percent_in_checks({.length = length, .check_cost = cost, .last = 20'000});
  }
}

TEST(Reaction, PhasesThatTakeTurnsCostOnePercentOverAll) {
  const auto length = [](BoundaryIndex index) { return index % 10'001 == 0 ? nanoseconds(200ms) : nanoseconds(10us); };
  expect_one_percent_in_checks({.length = length, .check_cost = 2us, .last = 100'000});
}

}  // namespace
}  // namespace reprieve::cluster
