// SPDX-License-Identifier: BSD-3-Clause
// The rounds of the threads over MPI, without a handler.

#include <gtest/gtest.h>

#include <chrono>
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

/// One rank's agreement by a thread.
class ThreadedRank {
 public:
  explicit ThreadedRank(std::chrono::milliseconds peer_timeout = 20s)
      : comm_(MPI_COMM_WORLD, 20s),
        round_comm_(MPI_COMM_WORLD, 20s),
        channel_(comm_),
        round_channel_(round_comm_),
        agreement_(
            channel_, comm_.rank(), comm_.size(), {16ms, peer_timeout}, [] { return LocalView{}; },
            [](const CheckResult&) {}),
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
