// SPDX-License-Identifier: BSD-3-Clause
// The trainer is told that it will end, in every way and at every time: it saves, leaves with 42, and the resumed run
// ends in the same state, bit by bit, as one that was never disturbed.

#include <signal.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "trainer_test.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

class TrainerPreemption : public TrainerOnRanks {};
REPRIEVE_ON_RANKS(TrainerPreemption);

TEST_P(TrainerPreemption, BySigtermToOneRank) {
  const auto job = start_and_wait(ranks());
  const int rank = random_rank();
  ASSERT_TRUE(job->send_to_rank(rank, SIGTERM)) << job->out() << job->err();
  const Result preempted = expect_preempted(*job);
  EXPECT_EQ(preempted.summary["preemption"]["rank"], rank);
  EXPECT_EQ(preempted.summary["preemption"]["source"], "signal SIGTERM");
  expect_same_end(ranks());
}

TEST_P(TrainerPreemption, BySigtermToSeveralRanksAtDifferentTimes) {
  const auto job = start_and_wait(ranks());
  std::vector<int> order(static_cast<std::size_t>(ranks()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  ASSERT_TRUE(job->send_to_rank(order.front(), SIGTERM)) << job->out() << job->err();
  for (const int rank : order) {
    std::this_thread::sleep_for(random_time(80ms));
    static_cast<void>(job->send_to_rank(rank, SIGTERM));  // the late ones come during the save or after the end
  }
  static_cast<void>(expect_preempted(*job));
  expect_same_end(ranks());
}

TEST_P(TrainerPreemption, BySigtermToAllRanks) {
  const auto job = start_and_wait(ranks());
  ASSERT_EQ(job->send_to_ranks(SIGTERM), ranks());
  static_cast<void>(expect_preempted(*job));
  expect_same_end(ranks());
}

TEST_P(TrainerPreemption, BySigusr1ToMpirun) {
  const auto job = start_and_wait(ranks());
  job->send(SIGUSR1);
  const Result preempted = expect_preempted(*job);
  EXPECT_EQ(preempted.summary["preemption"]["source"], "signal SIGUSR1");
  expect_same_end(ranks());
}

TEST_P(TrainerPreemption, BeforeMpiIsInitialised) {
  const auto job = start(ranks(), slow());
  const int rank = random_rank();
  wait_for_handler(*job, rank, SIGTERM);
  ASSERT_TRUE(job->send_to_rank(rank, SIGTERM)) << job->out() << job->err();
  const Result preempted = expect_preempted(*job);
  EXPECT_EQ(preempted.summary["preemption"]["rank"], rank);
  EXPECT_EQ(checkpoint_files().size(), 1U);
  expect_same_end(ranks());
}

TEST_P(TrainerPreemption, TwiceInARow) {
  auto job = start_and_wait(ranks());
  ASSERT_TRUE(job->send_to_rank(random_rank(), SIGTERM)) << job->out() << job->err();
  const Result first = expect_preempted(*job);
  job = start_and_wait(ranks());
  job->send(SIGUSR1);
  const Result second = expect_preempted(*job);
  EXPECT_EQ(second.summary["restored_from"], "ckpt-" + first.summary["run_calls"].dump() + ".h5");
  EXPECT_GT(second.summary["run_calls"], first.summary["run_calls"]);
  expect_same_end(ranks());
}

TEST_P(TrainerPreemption, WithAGracePeriodSavesTwice) {
  const auto job = start(ranks(), slow({"--grace-period", "8"}));
  wait_for_events(*job, "start", 1);
  ASSERT_TRUE(job->send_to_rank(random_rank(), SIGTERM)) << job->out() << job->err();
  wait_for_events(*job, "train_on", 1);
  ASSERT_GT(job->send_to_ranks(SIGTERM), 0);  // told again while it trains on: that changes nothing
  const Result preempted = expect_preempted(*job);
  const auto saves = events("save_finished");
  ASSERT_EQ(saves.size(), 2U) << preempted.err;
  for (const auto& save : saves) {
    EXPECT_EQ(save["reason"]["kind"], "preemption");
  }
  EXPECT_LT(saves[0]["number"], saves[1]["number"]);
  EXPECT_EQ(saves[1]["number"], preempted.summary["run_calls"]);
  expect_same_end(ranks());
}

class TrainerNotice : public TrainerTest {
 protected:
  /// Starts the training while something else holds the directory, and sends SIGTERM to the last rank while all wait.
  [[nodiscard]] std::unique_ptr<Mpirun> start_with_notice(int ranks) const {
    std::filesystem::create_directories(checkpoints_);
    Process holder({{"flock", checkpoints_ / ".reprieve.lock", "sh", "-c", "echo held; exec sleep 1000"}});
    EXPECT_TRUE(wait_until([&] { return holder.out() == "held\n"; }, kHang)) << holder.err();
    auto job = start(ranks, slow());
    wait_for_handler(*job, ranks - 1, SIGTERM);
    EXPECT_TRUE(job->send_to_rank(ranks - 1, SIGTERM));
    return job;
  }
};

TEST_F(TrainerNotice, BeforeTheRestoreSavesAtTheFirstBoundary) {
  const auto job = start_with_notice(2);
  EXPECT_EQ(expect_preempted(*job).summary["preemption"]["rank"], 1);
  expect_same_end(2);
}

TEST_F(TrainerNotice, AfterTheLastStepChangesNothing) {
  expect_same_end(2);
  const auto job = start_with_notice(2);
  const Result result = finish(*job);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.summary["state_digest"], undisturbed_digest(2));
  EXPECT_TRUE(result.summary["preemption"].is_null());
}

// mpirun gives the ranks one second and then kills them: they may or may not have saved, and its own code is 1.
TEST_F(TrainerNotice, SigtermToMpirunTearsDownAndLosesNothing) {
  const auto job = start_and_wait(2);
  job->send(SIGTERM);
  EXPECT_EQ(finish(*job).code, 1);
  ASSERT_TRUE(job->wait_for_descendants(kHang));
  expect_same_end(2);
}

TEST_F(TrainerNotice, WithTheMpiIoWriter) {
  const auto job = start(4, slow({"--writer", "mpio", "--checkpoint-every", "4"}));
  wait_for_events(*job, "save_finished", 2);
  ASSERT_TRUE(job->send_to_rank(2, SIGTERM)) << job->out() << job->err();
  static_cast<void>(expect_preempted(*job));
  expect_same_end(4, {"--writer", "mpio"});
}

// The held-out accuracy tells a valid training from one that only agrees with itself.
TEST_F(TrainerNotice, NoneAtAll) {
  const Result first = expect_same_end(2);
  EXPECT_GT(first.summary["accuracy"], 0.85);
  EXPECT_TRUE(first.summary["preemption"].is_null());
}

}  // namespace
}  // namespace reprieve::test
