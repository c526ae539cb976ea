// SPDX-License-Identifier: BSD-3-Clause
// The trainer is told that it will end, in every way and at every time: it saves, leaves with 42, and the resumed run
// ends in the same state, bit by bit, as one that was never disturbed.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <tuple>

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

// Death without notice: what was committed survives, and the next start resumes from there to the same end.

namespace fs = std::filesystem;

class TrainerDeath : public TrainerOnRanks {
 protected:
  /// Kills a rank in the moment in which a save has begun.
  void kill_in_save(const Options& options) {
    const auto job = start(ranks(), options);
    wait_for_events(*job, "start", events("start").size() + 1);
    const auto end = std::chrono::steady_clock::now() + kHang;
    // Without a pause between two looks, since a save lasts only some milliseconds.
    const auto victims = job->ranks();
    while (!save_has_begun() && std::chrono::steady_clock::now() < end) {
    }
    ::kill(victims.at(random_rank()), SIGKILL);
    EXPECT_EQ(finish(*job).code, 128 + SIGKILL);
  }

  /// Whether there is a checkpoint that is not committed.
  [[nodiscard]] bool save_has_begun() const {
    std::error_code none;
    const fs::directory_iterator entries(checkpoints_ / ".chieftemp", none);
    return std::any_of(begin(entries), end(entries),
                       [](const auto& entry) { return entry.path().extension() == ".h5"; });
  }
};
REPRIEVE_ON_RANKS(TrainerDeath);

TEST_P(TrainerDeath, OfARankAtRandomMoments) {
  for (int death = 0; death < 2; ++death) {
    const auto job = start(ranks(), {"--step-delay-ms", "25", "--checkpoint-every", "2"});
    ASSERT_TRUE(job->wait_for_ranks(kHang));
    std::this_thread::sleep_for(random_time(1500ms));  // not to wait for anything: the moment is to be another one
    ASSERT_TRUE(job->send_to_rank(random_rank(), SIGKILL)) << job->out() << job->err();
    EXPECT_EQ(finish(*job).code, 128 + SIGKILL);
    expect_sound_checkpoints();
  }
  expect_same_end(ranks());
}

TEST_P(TrainerDeath, OfARankInASave) {
  // A kill can come too late, when the save is just over: then the next one counts.
  for (int attempt = 0; attempt < 10 && !save_has_begun(); ++attempt) {
    kill_in_save({"--step-delay-ms", "25", "--checkpoint-every", "2"});
    expect_sound_checkpoints();
  }
  EXPECT_TRUE(save_has_begun()) << "never died within a save";
  expect_same_end(ranks());
}

TEST_P(TrainerDeath, OfMpirunWithARestartWhileTheRanksLiveOn) {
  const auto job = start_and_wait(ranks());
  job->send(SIGKILL);
  check_same_end(run(ranks()), ranks());
}

// A step that fails on one rank: all ranks leave with an error that names it, none hangs, and what was saved is the
// start of the next run.

using ::testing::HasSubstr;
using Json = nlohmann::json;

class TrainerStepFailure : public TrainerOnRanks {
 protected:
  /// Runs the training with a failure in step 33; the checkpoint before it is that of step 30.
  void expect_failure(int rank, const std::string& point, const Environment& environment = {}) {
    MpiCommand failing = command(ranks(), {"--checkpoint-every", "10", "--fail-rank", std::to_string(rank),
                                           "--fail-step", "33", "--fail-point", point, "--step-delay-ms", "30"});
    failing.environment = environment;
    const Result failed = finish(*start(failing));
    EXPECT_EQ(failed.code, 1) << failed.out;
    EXPECT_THAT(failed.err, HasSubstr("rank " + std::to_string(rank)));
    EXPECT_THAT(failed.err, HasSubstr("failed on purpose"));
    EXPECT_TRUE(failed.summary.is_null());
    const Json report = Json::parse(read_text(checkpoints_ / "error.json"));
    EXPECT_EQ(report["rank"], rank);
    EXPECT_THAT(report["message"], HasSubstr("failed on purpose"));
    ASSERT_FALSE(checkpoint_files().empty());
    EXPECT_EQ(checkpoint_files().back().filename(), "ckpt-30.h5");
  }
};
REPRIEVE_ON_RANKS(TrainerStepFailure);

// Steps of this length are checked at every boundary, so the others hear of it before they begin another step.
TEST_P(TrainerStepFailure, ReachesAllRanks) {
  expect_failure(random_rank(), "end");
  EXPECT_EQ(events("error").size(), 1U);
  expect_same_end(ranks());
}

// The other ranks wait for the failing one in a collective call of the application, which nothing can end but an abort.
TEST_P(TrainerStepFailure, EndsTheJobWhenTheOthersAreStuck) {
  expect_failure(random_rank(), "begin", {{"REPRIEVE_TERMINATION_ERROR_TIMEOUT_S", "1"}});
  expect_same_end(ranks());
}

// Resuming on another number of ranks.

class TrainerReshape : public TrainerTest, public ::testing::WithParamInterface<std::tuple<int, int>> {};
std::string change_text(const ::testing::TestParamInfo<std::tuple<int, int>>& change) {
  return std::to_string(std::get<0>(change.param)) + "To" + std::to_string(std::get<1>(change.param));
}

INSTANTIATE_TEST_SUITE_P(Trainer, TrainerReshape,
                         ::testing::Values(std::tuple(1, 3), std::tuple(2, 8), std::tuple(3, 2), std::tuple(4, 1),
                                           std::tuple(8, 4)),
                         change_text);

TEST_P(TrainerReshape, RestoresTheSameStateAndContinues) {
  const auto [before, after] = GetParam();
  const auto job = start_and_wait(before, 6);  // past the end of the first epoch
  ASSERT_TRUE(job->send_to_rank(before - 1, SIGTERM)) << job->out() << job->err();
  const Result preempted = expect_preempted(*job);

  const Result resumed = run(after);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.summary["restored_from"], "ckpt-" + preempted.summary["run_calls"].dump() + ".h5");
  EXPECT_EQ(resumed.summary["restored_shared_state_digest"], preempted.summary["shared_state_digest"]);
  EXPECT_EQ(resumed.summary["run_calls"], 200);
  // From here on it is another training: the noise on the images comes from other engines.
  EXPECT_GT(resumed.summary["accuracy"], 0.85);
  expect_tidy_directory();
}

}  // namespace
}  // namespace reprieve::test
