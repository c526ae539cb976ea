// SPDX-License-Identifier: BSD-3-Clause
// The agreement by threads with threads as ranks and messages in memory, so that schedules which MPI rarely shows come
// about.

#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "cluster/round_thread.hpp"
#include "cluster/step_agreement.hpp"
#include "reprieve/error.hpp"
#include "support/process.hpp"
#include "support/shared_reductions.hpp"
#include "support/shared_rounds.hpp"

namespace reprieve::cluster {
namespace {

using namespace std::chrono_literals;
using test::SharedReductions;
using test::SharedRounds;
using test::ThreadChannel;
using test::ThreadRoundChannel;

TEST(StopFlag, NoBoundaryPassesAfterTheOneThatCloseReturns) {
  StopFlag gate;
  std::atomic<BoundaryIndex> stopped_at{-1};
  std::atomic<bool> end{false};
  std::thread program([&] {
    for (BoundaryIndex index = 1; !end; ++index) {
      if (!gate.pass()) {
        stopped_at = index;
        while (stopped_at >= 0 && !end) {
          std::this_thread::yield();
        }
      }
    }
  });
  std::mt19937 random(5);
  for (int round = 0; round < 50'000; ++round) {
    for (auto wait = random() % 500; wait > 0; --wait) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    const BoundaryIndex limit = gate.close() + 1;
    while (stopped_at < 0) {
      std::this_thread::yield();
    }
    ASSERT_EQ(stopped_at, limit);
    gate.open();
    stopped_at = -1;
  }
  end = true;
  gate.open();
  program.join();
}

TEST(StepWatch, KnowsTheLongestStepButNoPause) {
  const StepWatch::Clock::time_point start{};
  StepWatch watch;
  watch.observe(1, start + 1h);  // the way to the first boundary
  EXPECT_EQ(watch.longest(), 0ns);
  watch.observe(101, start + 1h + 1s);
  EXPECT_EQ(watch.longest(), 10ms);
  watch.observe(102, start + 1h + 3s);
  EXPECT_EQ(watch.longest(), 2s);
  watch.restart(102, start + 1h + 60s);  // a save
  watch.observe(103, start + 1h + 61s);
  EXPECT_EQ(watch.longest(), 2s);
  EXPECT_EQ(watch.longest_until(start + 1h + 71s), 10s) << "the one under way";
}

TEST(StepWatch, ForgetsWhatLiesFarBackButInItsTotal) {
  const StepWatch::Clock::time_point start{};
  StepWatch watch;
  watch.observe(1, start + 1s);
  watch.observe(2, start + 10s);
  watch.observe(10'000, start + 200s);
  EXPECT_LT(watch.longest(), 100ms);
  EXPECT_EQ(watch.take_longest(), 9s);
  EXPECT_EQ(watch.take_longest(), 0ns);
}

/// One rank of a simulated program, which acts on notices as the handler does: it saves, and continues.
class RoundRank {
 public:
  RoundRank(SharedReductions& reductions, SharedRounds& rounds, int rank, int size, RoundOptions options = {1ms, 5s})
      : channel_(reductions),
        round_channel_(rounds),
        agreement_(
            channel_, rank, size, {16ms, 5s}, [this] { return look(); }, [this](const CheckResult& v) { hear(v); }),
        rounds_(round_channel_, options, [this] { return notice.load(); }) {
    agreement_.check_by(rounds_);
    rounds_.start();
    rounds_.resume();
  }

  /// A boundary, and what is decided there.
  void boundary() {
    agreement_.at_boundary();
    if (act_at_ && agreement_.index() >= *act_at_) {
      confirm();
      act_at_.reset();
      acted_at.push_back(agreement_.index());
      notice = false;
    }
  }
  /// All ranks meet here, or all throw.
  void confirm() {
    const CheckResult met = agreement_.confirm();
    hear(met);
    agreement_.check_met(met);
  }
  /// As the end of the handler does.
  void end() {
    closed = agreement_.close().all_closing;
    rounds_.rest(5s);
  }

  [[nodiscard]] StepAgreement& agreement() { return agreement_; }
  [[nodiscard]] RoundThread& rounds() { return rounds_; }
  [[nodiscard]] ThreadRoundChannel& channel() { return round_channel_; }

  std::atomic<bool> notice{false};
  std::vector<BoundaryIndex> acted_at;
  std::vector<BoundaryIndex> checked_at;
  int heard_failure_of = -1;
  BoundaryIndex heard_closing = -1;
  bool closed = false;

 private:
  LocalView look() {
    LocalView view;
    view.notice = notice;
    return view;
  }
  void hear(const CheckResult& check_result) {
    checked_at.push_back(agreement_.index());
    heard_closing = check_result.closing_index;
    if (check_result.failed_rank >= 0) {
      heard_failure_of = check_result.failed_rank;
      throw std::runtime_error("heard a failure");
    }
    if (check_result.notice_rank >= 0 && !act_at_) {
      act_at_ = check_result.act_at;
    }
  }

  ThreadChannel channel_;
  ThreadRoundChannel round_channel_;
  StepAgreement agreement_;
  RoundThread rounds_;
  std::optional<BoundaryIndex> act_at_;
};

/// All ranks of a program, each in a thread.
struct RoundWorld {
  explicit RoundWorld(int size, RoundOptions options = {1ms, 5s}) : reductions(size), rounds(size) {
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(std::make_unique<RoundRank>(reductions, rounds, rank, size, options));
    }
  }

  /// @param expected  the errors of those ranks that have one
  void run(const std::function<void(std::size_t rank, RoundRank& self)>& program,
           const std::vector<std::string>& expected = {}) {
    std::vector<std::string> errors(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      threads.emplace_back([this, rank, &program, &errors] {
        try {
          program(rank, *ranks[rank]);
        } catch (const std::exception& error) {
          errors[rank] = error.what();
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    std::erase(errors, "");
    EXPECT_EQ(errors, expected);
  }

  void expect_acted_at(const std::vector<BoundaryIndex>& boundaries) const {
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank->acted_at, boundaries);
    }
  }
  void expect_heard_failure_of(int failed) const {
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank->heard_failure_of, failed);
    }
  }

  SharedReductions reductions;
  SharedRounds rounds;
  std::vector<std::unique_ptr<RoundRank>> ranks;
};

class RoundSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, RoundSizes, testing::Values(1, 2, 3, 5));

/// Uncoupled ranks of different and changing speeds, with notices at random ranks and moments, also on several at once.
TEST_P(RoundSizes, AllRanksActAtTheSameBoundaries) {
  for (unsigned round = 0; round < 8; ++round) {
    RoundWorld world(GetParam());
    world.run([&](std::size_t rank, RoundRank& self) {
      std::mt19937 random(100 * round + static_cast<unsigned>(rank));
      const auto pause = std::chrono::microseconds(random() % 200);
      for (int step = 0; step < 400; ++step) {
        self.boundary();
        if (random() % 100 == 0) {
          self.notice = true;
        }
        std::this_thread::sleep_for(step % 7 == 0 ? 4 * pause : pause);
      }
      self.end();
    });
    for (const auto& rank : world.ranks) {
      EXPECT_TRUE(rank->closed);
      EXPECT_EQ(rank->acted_at, world.ranks[0]->acted_at);
      EXPECT_EQ(rank->checked_at, world.ranks[0]->checked_at);
    }
    EXPECT_FALSE(world.ranks[0]->acted_at.empty());
  }
}

/// Nobody comes to a boundary before all know it.
TEST_P(RoundSizes, AllKnowOfANoticeInWhateverStepTheyAre) {
  RoundWorld world(GetParam());
  std::atomic<int> knowing = 0;
  std::barrier<> none_yet(GetParam());
  world.run([&](std::size_t rank, RoundRank& self) {
    self.boundary();
    EXPECT_FALSE(*self.rounds().notice_waits());
    none_yet.arrive_and_wait();
    self.notice = rank + 1 == world.ranks.size();
    EXPECT_TRUE(test::wait_until([&] { return self.rounds().notice_waits()->load(); }, 20s));
    ++knowing;
    EXPECT_TRUE(test::wait_until([&] { return knowing == GetParam(); }, 20s));
    while (self.acted_at.empty()) {
      self.boundary();
    }
    // A round may have begun while the rank acted.
    EXPECT_TRUE(test::wait_until(
        [&] {
          self.boundary();
          return !*self.rounds().notice_waits();
        },
        20s));
    self.end();
  });
}

/// Whatever the steps before took: the boundary after that in which the threads agreed.
TEST(Rounds, ANoticeInALongStepIsActedOnAtTheNextBoundary) {
  RoundWorld world(3);
  std::barrier<> meeting(3);
  world.run([&](std::size_t rank, RoundRank& self) {
    for (int step = 1; step <= 1000; ++step) {
      self.boundary();
    }
    for (int step = 0; step < 3; ++step) {
      meeting.arrive_and_wait();
      self.boundary();
      meeting.arrive_and_wait();
      self.notice = self.notice || (rank == 2 && step == 0);
      while (step == 0 && world.rounds.begun_by_all() == 0) {
        std::this_thread::sleep_for(1ms);  // a long step
      }
    }
    self.end();
  });
  world.expect_acted_at({1002});
}

TEST(Rounds, NothingIsSentWithoutNews) {
  RoundWorld world(2);
  world.run([&](std::size_t, RoundRank& self) {
    for (int step = 1; step <= 200; ++step) {
      self.boundary();
      std::this_thread::sleep_for(100us);
    }
  });
  EXPECT_EQ(world.rounds.begun(), 0U);
  EXPECT_EQ(world.ranks[0]->checked_at, std::vector<BoundaryIndex>{1}) << "the one before which a notice may have come";
}

TEST(Rounds, ARequestLeadsToOneCheck) {
  RoundWorld world(2);
  std::barrier<> meeting(2);
  world.run([&](std::size_t rank, RoundRank& self) {
    for (int step = 1; step <= 300; ++step) {
      self.boundary();
      if (step == 50 && rank == 1) {
        self.rounds().request();
      }
      if (step == 50) {
        meeting.arrive_and_wait();  // or the other rank may be at its end by then
      }
      std::this_thread::sleep_for(100us);
    }
    self.end();
  });
  EXPECT_EQ(world.ranks[0]->checked_at.size(), 2U);
  EXPECT_EQ(world.ranks[0]->checked_at, world.ranks[1]->checked_at);
  EXPECT_GT(world.ranks[0]->checked_at.back(), 50);
}

TEST(Rounds, AnAlarmBeginsARound) {
  RoundWorld world(2);
  world.run([&](std::size_t rank, RoundRank& self) {
    self.boundary();
    if (rank == 0) {
      self.rounds().set_alarm(RoundThread::Clock::now() + 5ms);
    }
    while (self.checked_at.size() < 2) {
      self.boundary();
      std::this_thread::sleep_for(200us);
    }
    self.rounds().rest(5s);
  });
  EXPECT_EQ(world.ranks[0]->checked_at, world.ranks[1]->checked_at);
}

TEST(Rounds, AfterBeginPhaseTheNextBoundaryChecks) {
  RoundWorld world(3);
  world.run([&](std::size_t rank, RoundRank& self) {
    for (int step = 1; step <= 100; ++step) {
      if (step == 60) {
        self.notice = rank == 1;
        self.agreement().begin_phase();
      }
      self.boundary();
    }
    self.end();
  });
  world.expect_acted_at({60});
}

/// The ranks are at different boundaries, and those that are ahead of the failed one must not wait for it.
TEST(Rounds, AllRanksHearOfAFailureAtTheirNextBoundary) {
  RoundWorld world(4);
  const auto program = [&](std::size_t rank, RoundRank& self) {
    for (int step = 1;; ++step) {
      self.boundary();
      if (rank == 2 && step == 40) {
        self.rounds().announce_failure(5s);
        self.heard_failure_of = self.agreement().fail(5s).failed_rank;
        break;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50 * rank));
    }
  };
  world.run(program, std::vector<std::string>(3, "heard a failure"));
  world.expect_heard_failure_of(2);
  world.run([](std::size_t, RoundRank& self) { self.rounds().rest(5s); });
}

TEST(Rounds, ARankThatClosedHearsOfAFailure) {
  RoundWorld world(3);
  std::barrier<> meeting(3);
  world.run([&](std::size_t rank, RoundRank& self) {
    for (int step = 1; step <= 10; ++step) {
      self.boundary();
    }
    meeting.arrive_and_wait();  // or a slow rank hears of it at a boundary
    if (rank == 2) {
      self.rounds().announce_failure(5s);
      self.heard_failure_of = self.agreement().fail(5s).failed_rank;
    } else {
      self.heard_failure_of = self.agreement().close().failed_rank;
    }
    self.rounds().rest(5s);
  });
  world.expect_heard_failure_of(2);
}

/// Its peers make no check by themselves.
TEST(Rounds, ARankThatEndsEarlyIsMetByTheOthers) {
  RoundWorld world(3);
  world.run([&](std::size_t rank, RoundRank& self) {
    for (int step = 1; rank != 1 || step <= 10; ++step) {
      self.boundary();
      if (self.heard_closing >= 0) {
        self.heard_failure_of = self.agreement().fail(5s).failed_rank;
        return;
      }
      std::this_thread::sleep_for(1ms);
    }
    self.heard_failure_of = self.agreement().close().failed_rank;
  });
  world.expect_heard_failure_of(0);
}

/// A notice after the last boundary: the check lies beyond it, and nobody waits for that.
TEST(Rounds, ACheckBeyondTheLastBoundaryHoldsNobody) {
  for (int round = 0; round < 50; ++round) {
    RoundWorld world(3);
    world.run([&](std::size_t rank, RoundRank& self) {
      for (int step = 1; step <= 20; ++step) {
        self.boundary();
        if (step == 20 - round % 2 && rank == static_cast<std::size_t>(round) % 3) {
          self.rounds().request();
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100 * ((rank + static_cast<std::size_t>(round)) % 3)));
      }
      self.end();
    });
    EXPECT_TRUE(world.ranks[0]->closed);
  }
}

TEST(Rounds, TheThreadsRestTogetherAndContinue) {
  RoundWorld world(3);
  std::barrier<> meeting(3);
  world.run([&](std::size_t rank, RoundRank& self) {
    for (int part = 0; part < 20; ++part) {
      for (int step = 0; step < 20; ++step) {
        self.boundary();
        self.notice = self.notice || (rank == static_cast<std::size_t>(part) % 3 && step == 10);
        std::this_thread::sleep_for(100us);
      }
      self.confirm();
      self.rounds().rest(5s);
      meeting.arrive_and_wait();
      self.rounds().resume();
    }
    self.end();
  });
  for (const auto& rank : world.ranks) {
    EXPECT_EQ(rank->checked_at, world.ranks[0]->checked_at);
  }
  EXPECT_GE(world.ranks[0]->checked_at.size(), 20U);
}

TEST(Rounds, AThreadThatRestsUsesNothingAndEndsAlone) {
  RoundWorld world(2);
  world.run([](std::size_t, RoundRank& self) { self.end(); });
  const std::size_t rounds = world.rounds.begun();
  world.ranks[0]->notice = true;
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(world.rounds.begun(), rounds);
  world.ranks[0]->rounds().abandon();
  EXPECT_TRUE(world.ranks[0]->channel().left);
}

TEST(Rounds, AnAbandonedThreadHoldsNoBoundaryForever) {
  RoundWorld world(2);
  world.ranks[0]->rounds().abandon();
  EXPECT_THROW(world.ranks[0]->boundary(), UnresponsiveError);
}

}  // namespace
}  // namespace reprieve::cluster
