// SPDX-License-Identifier: BSD-3-Clause
// The agreement protocol with threads as ranks and reductions in memory, so that schedules which MPI rarely shows can
// be forced.

#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <random>
#include <thread>

#include "cluster/step_agreement.hpp"
#include "reprieve/error.hpp"
#include "support/shared_reductions.hpp"

namespace reprieve::cluster {
namespace {

using namespace std::chrono_literals;
using test::SharedReductions;
using test::ThreadChannel;

/// One rank of a simulated program: a loop of boundaries that acts on a notice as the handler does.
struct SimulatedRank {
  BoundaryIndex notice_from = -1;           ///< sees a notice from this boundary on
  std::function<void(BoundaryIndex)> step;  ///< the work between boundaries
  BoundaryIndex last_boundary = 100'000;    ///< closes after it
  BoundaryIndex fails_at = -1;              ///< its step after this boundary fails
  // Results.
  BoundaryIndex acted_at = -1;
  BoundaryIndex notice_index = -1;
  int heard_failure_of = -1;
  std::string error;
  bool closed = false;
};

class RankProgram {
 public:
  RankProgram(SharedReductions& shared, int rank, int size, SimulatedRank& plan)
      : plan_(plan),
        channel_(shared),
        agreement_(
            channel_, rank, size, {10ms, 5s}, [this] { return look(); }, [this](const Verdict& v) { hear(v); }) {}

  void run() {
    try {
      while (agreement_.index() < plan_.last_boundary) {
        agreement_.at_boundary();
        if (act_at_ && agreement_.index() >= *act_at_) {
          const Verdict met = agreement_.confirm();
          hear(met);
          agreement_.check_met(met);
          plan_.acted_at = agreement_.index();
          return;
        }
        if (agreement_.index() == plan_.fails_at) {
          plan_.heard_failure_of = agreement_.fail(5s).failed_rank;
          return;
        }
        plan_.step(agreement_.index());
      }
      const Verdict verdict = agreement_.close();
      plan_.closed = verdict.all_closing;
      plan_.heard_failure_of = verdict.failed_rank;
    } catch (const std::exception& error) {
      plan_.error = error.what();
    }
  }

 private:
  struct HeardFailure : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  LocalView look() {
    LocalView view;
    view.notice = plan_.notice_from >= 0 && agreement_.index() >= plan_.notice_from;
    return view;
  }

  void hear(const Verdict& verdict) {
    if (verdict.failed_rank >= 0) {
      plan_.heard_failure_of = verdict.failed_rank;
      throw HeardFailure("heard a failure");
    }
    if (verdict.notice_rank >= 0 && !act_at_) {
      act_at_ = verdict.act_at;
      plan_.notice_index = verdict.notice_index;
    }
  }

  SimulatedRank& plan_;
  ThreadChannel channel_;
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

void no_work(BoundaryIndex) {}

class StepAgreementSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, StepAgreementSizes, testing::Values(1, 2, 3, 5));

TEST_P(StepAgreementSizes, AllRanksActAtOneBoundaryAfterTheNotice) {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    std::vector<SimulatedRank> ranks(static_cast<std::size_t>(GetParam()));
    for (auto& rank : ranks) {
      // Uncoupled ranks of different speeds that also change their speed.
      const auto pause = std::chrono::microseconds(random() % 300);
      rank.step = [pause](BoundaryIndex index) { std::this_thread::sleep_for(index % 7 == 0 ? 4 * pause : pause); };
    }
    const auto source = random() % ranks.size();
    ranks[source].notice_from = static_cast<BoundaryIndex>(random() % 60);
    run_all(ranks);
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank.error, "");
      EXPECT_EQ(rank.acted_at, ranks[0].acted_at);
      EXPECT_GE(rank.acted_at, rank.notice_index);
      EXPECT_GE(rank.notice_index, ranks[source].notice_from);
    }
  }
}

TEST_P(StepAgreementSizes, ANoticeBeforeTheFirstBoundaryIsActedOnThere) {
  std::vector<SimulatedRank> ranks(static_cast<std::size_t>(GetParam()));
  for (auto& rank : ranks) {
    rank.step = no_work;
  }
  ranks.back().notice_from = 0;
  run_all(ranks);
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.error, "");
    EXPECT_EQ(rank.acted_at, 1);
  }
}

TEST(StepAgreement, LongStepsAreCheckedAtEveryBoundary) {
  std::vector<SimulatedRank> ranks(2);
  for (auto& rank : ranks) {
    rank.step = [](BoundaryIndex) { std::this_thread::sleep_for(12ms); };
  }
  ranks[1].notice_from = 4;
  run_all(ranks);
  EXPECT_EQ(ranks[0].acted_at, 4);
  EXPECT_EQ(ranks[1].acted_at, 4);
}

TEST(StepAgreement, WhenStepsGetLongTheNextCheckComesWithinTheGreatestStride) {
  std::vector<SimulatedRank> ranks(2);
  for (auto& rank : ranks) {
    rank.step = [](BoundaryIndex index) {
      if (index >= 5'000) {
        std::this_thread::sleep_for(12ms);
      }
    };
  }
  ranks[0].notice_from = 5'001;
  run_all(ranks);
  EXPECT_EQ(ranks[0].error, "");
  EXPECT_EQ(ranks[0].acted_at, ranks[1].acted_at);
  EXPECT_LE(ranks[0].acted_at, 5'001 + CheckPlan::kMaxStride + CheckPlan::kMaxStride / 5);
}

TEST(StepAgreement, RanksThatMeetInTheApplicationWhileOthersAreBehindDoNotDeadlock) {
  // Fast ranks run ahead to the application's meeting point, where they wait for the slow one. None of them may be
  // waited for by the slow rank at an earlier boundary.
  for (int round = 0; round < 10; ++round) {
    std::vector<SimulatedRank> ranks(3);
    std::barrier<> meeting(3);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].step = [i, &meeting](BoundaryIndex index) {
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
  std::vector<SimulatedRank> ranks(4);
  for (auto& rank : ranks) {
    rank.step = [](BoundaryIndex) { std::this_thread::sleep_for(100us); };
  }
  ranks[2].fails_at = 40;
  run_all(ranks);
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.heard_failure_of, 2);
    EXPECT_EQ(rank.acted_at, -1);
  }
}

TEST(StepAgreement, ARankThatClosedHearsOfAFailure) {
  std::vector<SimulatedRank> ranks(3);
  for (auto& rank : ranks) {
    rank.step = [](BoundaryIndex) { std::this_thread::sleep_for(100us); };
    rank.last_boundary = 10;
  }
  ranks[2].fails_at = 10;
  run_all(ranks);
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.heard_failure_of, 2);
    EXPECT_FALSE(rank.closed);
  }
}

TEST(StepAgreement, OfTwoFailuresAllRanksHearTheSameOne) {
  for (int round = 0; round < 20; ++round) {
    std::vector<SimulatedRank> ranks(3);
    for (auto& rank : ranks) {
      rank.step = no_work;
    }
    ranks[1].fails_at = 500;
    ranks[2].fails_at = 500 + round;
    run_all(ranks);
    EXPECT_EQ(ranks[0].heard_failure_of, ranks[1].heard_failure_of);
    EXPECT_EQ(ranks[0].heard_failure_of, ranks[2].heard_failure_of);
    EXPECT_GT(ranks[0].heard_failure_of, 0);
  }
}

TEST(StepAgreement, RanksThatMakeTheSameNumberOfBoundariesClose) {
  std::vector<SimulatedRank> ranks(3);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].step = [i](BoundaryIndex) { std::this_thread::sleep_for(std::chrono::microseconds(50 * i)); };
    ranks[i].last_boundary = 200;
  }
  run_all(ranks);
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.error, "");
    EXPECT_TRUE(rank.closed);
  }
}

TEST(StepAgreement, AMissingRankIsAnErrorAfterTheLimit) {
  SharedReductions shared(2);
  ThreadChannel channel(shared);
  StepAgreement agreement(
      channel, 0, 2, {10ms, 50ms}, [] { return LocalView{}; }, [](const Verdict&) {});
  EXPECT_THROW(agreement.at_boundary(), UnresponsiveError);
}

}  // namespace
}  // namespace reprieve::cluster
