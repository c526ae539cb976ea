// SPDX-License-Identifier: BSD-3-Clause
// The rounds of the threads over MPI, without a handler.

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "cluster/round_thread.hpp"
#include "cluster/step_agreement.hpp"
#include "reprieve/error.hpp"
#include "support/mpi_test.hpp"

namespace reprieve::cluster {
namespace {

using namespace std::chrono_literals;
using test::world_rank;
using test::world_size;

/// One rank's agreement by a thread. Records where the ranks checked.
class ThreadedRank {
 public:
  explicit ThreadedRank(std::chrono::milliseconds peer_timeout = 20s)
      : comm_(MPI_COMM_WORLD, 20s),
        round_comm_(MPI_COMM_WORLD, 20s),
        channel_(comm_),
        round_channel_(round_comm_),
        agreement_(
            channel_, comm_.rank(), comm_.size(), {16ms, peer_timeout}, [] { return LocalView{}; },
            [this](const Verdict&) { checked_at.push_back(agreement_.index()); }),
        rounds_(round_channel_, {4ms, peer_timeout}, [] { return false; }) {
    agreement_.check_by(rounds_);
    rounds_.start();
    rounds_.resume();
  }

  void end() {
    agreement_.close();
    rounds_.rest(20s);
  }
  [[nodiscard]] StepAgreement& agreement() { return agreement_; }
  [[nodiscard]] RoundThread& rounds() { return rounds_; }

  std::vector<BoundaryIndex> checked_at;

 private:
  Communicator comm_;
  Communicator round_comm_;
  MpiReductionChannel channel_;
  MpiRoundChannel round_channel_;
  StepAgreement agreement_;
  RoundThread rounds_;
};

class MpiRounds : public testing::Test {
 protected:
  void SetUp() override {
    if (!any_thread_may_use_mpi()) {
      GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
    }
  }
};

void expect_equal_on_all_ranks(std::vector<BoundaryIndex> values) {
  auto size = static_cast<int>(values.size());
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  ASSERT_EQ(static_cast<std::size_t>(size), values.size());
  const std::vector<BoundaryIndex> mine = values;
  MPI_Bcast(values.data(), size, MPI_INT64_T, 0, MPI_COMM_WORLD);
  EXPECT_EQ(mine, values);
}

/// Ranks that come at different times, ask at random, and meet at every tenth step while threads talk as well.
TEST_F(MpiRounds, AllRanksCheckAtTheSameBoundaries) {
  ThreadedRank rank;
  std::mt19937 random(static_cast<unsigned>(world_rank()) + 1);
  for (int step = 1; step <= 1000; ++step) {
    rank.agreement().at_boundary();
    if (random() % 200 == 0) {
      rank.rounds().request();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    if (step % 10 == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  rank.end();
  EXPECT_GT(rank.checked_at.size(), 2U);
  expect_equal_on_all_ranks(rank.checked_at);
}

/// A thread that ends alone in the middle of what it does leaves nothing behind that a later agreement meets.
TEST_F(MpiRounds, AnAbandonedThreadDisturbsNobody) {
  for (int round = 0; round < 5; ++round) {
    ThreadedRank rank;
    rank.agreement().at_boundary();
    if (world_rank() == 0) {
      rank.rounds().request();
    }
    std::this_thread::sleep_for(round * 1ms);
    rank.rounds().abandon();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ThreadedRank rank;
  rank.agreement().at_boundary();
  rank.end();
}

/// Those that are held know whom they wait for, and are not let go.
TEST_F(MpiRounds, AMissingThreadIsNamedAfterTheLimit) {
  REPRIEVE_NEEDS_RANKS(2);
  ThreadedRank rank(1s);
  MPI_Barrier(MPI_COMM_WORLD);
  rank.agreement().at_boundary();
  const int missing = world_size() - 1;
  if (world_rank() == missing) {
    rank.rounds().abandon();
  }
  MPI_Barrier(MPI_COMM_WORLD);  // else the thread may still take part in the round that begins now
  if (world_rank() != missing) {
    rank.rounds().request();
    try {
      for (;;) {
        rank.agreement().at_boundary();
        std::this_thread::sleep_for(1ms);
      }
    } catch (const UnresponsiveError& error) {
      EXPECT_EQ(error.missing_ranks(), std::vector<int>{missing});
    }
    EXPECT_TRUE(rank.rounds().broken());
    EXPECT_THROW(rank.agreement().at_boundary(), UnresponsiveError);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace reprieve::cluster
