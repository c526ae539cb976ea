// SPDX-License-Identifier: BSD-3-Clause
// How many step boundaries lie between a notice and its save when steps change their length: threads as ranks, with
// clocks that only their steps move, so that every run of these tests is the same.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cluster/step_agreement.hpp"
#include "support/shared_reductions.hpp"

namespace reprieve::cluster {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using test::SharedReductions;
using test::ThreadChannel;

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

/// What it came to, on one rank.
struct Outcome {
  BoundaryIndex acted_at = -1;
  BoundaryIndex due_at = -1;  ///< where the clock had passed save_every
  nanoseconds spent{0};       ///< in checks
  nanoseconds total{0};
  std::string error;
};

/// Time that only the program moves.
struct HandClock {
  StepAgreement::Clock::time_point now{};
};

class CostlyChannel final : public ThreadChannel {
 public:
  CostlyChannel(SharedReductions& shared, HandClock& clock, nanoseconds cost)
      : ThreadChannel(shared), clock_(clock), cost_(cost) {}
  void post(const AgreementVector& mine) override {
    ThreadChannel::post(mine);
    clock_.now += cost_;
    spent += cost_;
  }
  nanoseconds spent{0};

 private:
  HandClock& clock_;
  nanoseconds cost_;
};

class Rank {
 public:
  Rank(SharedReductions& shared, int rank, int size, const Story& story)
      : story_(story),
        is_source_(rank == size - 1),
        is_chief_(rank == 0),
        channel_(shared, clock_, story.check_cost),
        agreement_(
            channel_, rank, size, {16ms, 60s, [this] { return clock_.now; }}, [this] { return look(); },
            [this](const Verdict& verdict) { hear(verdict); }) {}

  Outcome run() {
    try {
      while (outcome.acted_at < 0 && agreement_.index() < story_.last) {
        step();
      }
      if (outcome.acted_at < 0) {
        agreement_.close();
      }
    } catch (const std::exception& error) {
      outcome.error = error.what();
    }
    outcome.spent = channel_.spent;
    outcome.total = clock_.now.time_since_epoch();
    return outcome;
  }

 private:
  void step() {
    if (agreement_.index() + 1 == story_.phase_before) {
      agreement_.begin_phase();
      act_at_ = act_at_ ? std::min(*act_at_, agreement_.index() + 1) : act_at_;
    }
    agreement_.at_boundary();
    if (act_at_ && agreement_.index() >= *act_at_) {
      outcome.acted_at = agreement_.index();
      hear(agreement_.confirm());
      return;
    }
    clock_.now += story_.length(agreement_.index());
    if (outcome.due_at < 0 && story_.save_every > 0ns && clock_.now.time_since_epoch() >= story_.save_every) {
      outcome.due_at = agreement_.index();
    }
    if (agreement_.index() != story_.event_at) {
      return;
    }
    if (story_.event_is_failure && is_source_) {
      agreement_.fail(60s);
      outcome.acted_at = agreement_.index();
    } else if (!story_.event_is_failure) {
      notice_ = is_source_;
    }
  }

  LocalView look() {
    LocalView view;
    view.notice = notice_;
    if (is_chief_ && outcome.due_at >= 0) {
      view.requested = RequestedSave::periodic;
    }
    return view;
  }

  void hear(const Verdict& verdict) {
    if (verdict.failed_rank >= 0) {
      outcome.acted_at = agreement_.index();
    } else if ((verdict.notice_rank >= 0 || verdict.requested != RequestedSave::none) && !act_at_) {
      act_at_ = verdict.act_at;
    }
  }

  Outcome outcome;
  Story story_;
  bool is_source_;
  bool is_chief_;
  bool notice_ = false;
  std::optional<BoundaryIndex> act_at_;
  HandClock clock_;
  CostlyChannel channel_;
  StepAgreement agreement_;
};

std::vector<Outcome> told(const Story& story, int size = 2) {
  SharedReductions shared(size);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[static_cast<std::size_t>(rank)] = std::make_unique<Rank>(shared, rank, size, story)->run();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error, "");
    if (!story.event_is_failure) {
      EXPECT_EQ(outcome.acted_at, outcomes[0].acted_at);
    }
  }
  return outcomes;
}

/// Boundaries from the notice to the save, the most of all ways in which the change and the notice can fall.
BoundaryIndex longest_wait(nanoseconds before, nanoseconds after, Story story = {}) {
  BoundaryIndex longest = 0;
  for (BoundaryIndex change = 1'000; change < 1'030; ++change) {
    for (const BoundaryIndex later : {-1, 0, 1, 2, 9, 40}) {
      story.length = [=](BoundaryIndex index) { return index < change ? before : after; };
      story.event_at = change + later;
      const auto outcomes = told(story);
      BoundaryIndex acted_at = outcomes[0].acted_at;
      EXPECT_GE(acted_at, story.event_at);
      longest = std::max(longest, acted_at - story.event_at);
    }
  }
  return longest;
}

TEST(Reaction, FromAMillisecondToASecondWithinThreeBoundaries) { EXPECT_LE(longest_wait(1ms, 1s), 3); }
TEST(Reaction, FromTenMicrosecondsWithin24Boundaries) {
  EXPECT_LE(longest_wait(10us, 1s), 24);
  EXPECT_LE(longest_wait(20us, 500ms), 24);
  EXPECT_GT(longest_wait(10us, 1s), 3) << "the steps before were not short";
}
TEST(Reaction, FromAHundredMicrosecondsWithinSevenBoundaries) { EXPECT_LE(longest_wait(100us, 1s), 7); }
TEST(Reaction, OfLongStepsWithinOneBoundary) { EXPECT_EQ(longest_wait(200ms, 200ms), 1); }

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
      const auto outcomes = told(story);
      EXPECT_EQ(outcomes[0].due_at, change);
      EXPECT_LE(outcomes[0].acted_at - outcomes[0].due_at, bound);
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

TEST(Reaction, ManyRanksAreNoSlower) {
  for (BoundaryIndex change = 1'000; change < 1'024; ++change) {
    Story story;
    story.length = [=](BoundaryIndex index) { return index < change ? nanoseconds(10us) : nanoseconds(1s); };
    story.event_at = change;
    EXPECT_LE(told(story, 7)[0].acted_at - change, 24);
  }
}

TEST(Reaction, ChecksTakeOnePercentOfStepsOfAnyConstantLength) {
  for (const auto& [step, cost] :
       {std::pair{10us, 2us}, {100us, 5us}, {1000us, 15us}, {10000us, 37us}, {200us, 40us}}) {
    Story story;
    story.length = [step = step](BoundaryIndex) { return nanoseconds(step); };
    story.check_cost = cost;
    story.last = 20'000;
    const Outcome outcome = told(story)[0];
    EXPECT_LE(outcome.spent, outcome.total / 90) << step.count();
  }
}

TEST(Reaction, PhasesThatTakeTurnsCostOnePercentOverAll) {
  Story story;
  story.length = [](BoundaryIndex index) { return index % 10'001 == 0 ? nanoseconds(200ms) : nanoseconds(10us); };
  story.check_cost = 2us;
  story.last = 100'000;
  const Outcome outcome = told(story)[0];
  EXPECT_LE(outcome.spent, outcome.total / 90);
}

}  // namespace
}  // namespace reprieve::cluster
