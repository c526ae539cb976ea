// SPDX-License-Identifier: BSD-3-Clause
// The trainer is told that it will end, in every way and at every time: it saves, leaves with 42, and the resumed run
// ends in the same state, bit by bit, as one that was never disturbed.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>
#include <tuple>

#include "support/metadata_server.hpp"
#include "trainer_test.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

class TrainerPreemption : public TrainerOnRanks {};
INSTANTIATE_TEST_SUITE_P(Trainer, TrainerPreemption, ::testing::Values(1, 2, 8), ranks_text);

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
  const Result undisturbed = expect_same_end(2);
  EXPECT_GT(undisturbed.summary["accuracy"], 0.85) << "a valid training, not one that only agrees with itself";
  EXPECT_TRUE(undisturbed.summary["preemption"].is_null());
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

// Death without notice: what was committed survives, and the next start resumes from there to the same end.

namespace fs = std::filesystem;

class TrainerDeath : public TrainerOnRanks {};
INSTANTIATE_TEST_SUITE_P(Trainer, TrainerDeath, ::testing::Values(2), ranks_text);

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
INSTANTIATE_TEST_SUITE_P(Trainer, TrainerStepFailure, ::testing::Values(2), ranks_text);

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

INSTANTIATE_TEST_SUITE_P(Trainer, TrainerReshape, ::testing::Values(std::tuple(2, 8), std::tuple(3, 2)), change_text);

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

// Directories, checkpoints and settings that are not as they should be: a clear message, a non-zero exit code of every
// rank, and nothing lost.

using ::testing::AllOf;

class TrainerInput : public TrainerTest {
 protected:
  /// Every rank must end with this code, and the job with this on standard error.
  void expect_refusal(MpiCommand job, int code, const ::testing::Matcher<std::string>& message) const {
    const fs::path codes = directory_ / "codes";
    fs::remove(codes);
    // Each rank stays until all have noted their codes, or else mpirun would kill those that are later than the first.
    const Options note_code{"sh", "-c", R"("$@"; code=$?; echo $code >> "$CODES"
        while [ $(wc -l < "$CODES") -lt $OMPI_COMM_WORLD_SIZE ]; do sleep 0.05; done; exit $code)",
                            "sh"};
    job.rank_prefix.insert(job.rank_prefix.begin(), note_code.begin(), note_code.end());
    job.environment["CODES"] = codes.string();
    const Result result = finish(*start(job));
    EXPECT_EQ(result.code, code) << result.out;
    EXPECT_THAT(result.err, message);
    EXPECT_TRUE(result.summary.is_null());
    std::string expected;
    for (int rank = 0; rank < job.ranks; ++rank) {
      expected += std::to_string(code) + "\n";
    }
    EXPECT_EQ(read_text(codes), expected);
  }
  void expect_refusal(const Options& options, int code, const ::testing::Matcher<std::string>& message) const {
    expect_refusal(command(3, options), code, message);
  }
};

TEST_F(TrainerInput, ConfigWithAnUnknownKey) {
  const fs::path config = directory_ / "config.json";
  std::ofstream(config) << R"({"trainer": {"epoch": 3}})";
  expect_refusal({"--config", config.string()}, 2, HasSubstr("epoch"));
  EXPECT_FALSE(fs::exists(checkpoints_));
}

// Only one rank meets the wrong setting; all must leave with its message.
TEST_F(TrainerInput, EnvironmentWrongOnOneRank) {
  MpiCommand job = command(3);
  job.rank_prefix = {"sh", "-c", R"([ "$OMPI_COMM_WORLD_RANK" = 1 ] && export REPRIEVE_LOG_LEVEL=loud; exec "$@")",
                     "sh"};
  expect_refusal(job, 2, HasSubstr("REPRIEVE_LOG_LEVEL"));
}

// The trainer, told of its end in every way that a platform has.

constexpr int kRanksOfSources = 2;

class TrainerSource : public TrainerTest {
 protected:
  /// A slow training on a platform. It would last longer than any of the times here.
  [[nodiscard]] std::unique_ptr<Mpirun> start_on(Environment environment, int ranks = kRanksOfSources) const {
    MpiCommand job = command(ranks, slow());
    environment.emplace("REPRIEVE_TERMINATION_POLL_INTERVAL_S", "0.05");
    job.environment.merge(environment);
    return start(job);
  }
  [[nodiscard]] std::unique_ptr<Mpirun> start_in_cloud(const std::string& cloud, Environment more = {}) const {
    Environment environment = server_.environment(cloud);
    environment.merge(more);
    auto job = start_on(environment);
    wait_for_events(*job, "ready", 1);
    return job;
  }

  /// One preemption for this source, saved @p saves times, and left with @p code; the rest of the training then ends as
  /// an undisturbed one.
  void expect_saved(Mpirun& job, const std::string& source, int code, std::size_t saves) const {
    const Result result = finish(job);
    EXPECT_EQ(result.code, code) << result.out << result.err;
    ASSERT_FALSE(result.summary.is_null()) << result.err;
    EXPECT_EQ(result.summary["preemption"]["source"], source);
    EXPECT_EQ(events("notice").size(), 1U);
    EXPECT_EQ(events("save_finished").size(), saves) << result.err;
    expect_same_end(kRanksOfSources);
  }

  MetadataServerDouble server_;
};

TEST_F(TrainerSource, GceMaintenanceWithoutAGpuLeavesNoTime) {
  const auto job = start_in_cloud("gce", {{"REPRIEVE_DEVICE", "cpu"}});
  server_.set_maintenance_event("TERMINATE_ON_HOST_MAINTENANCE");
  expect_saved(*job, "metadata server of GCE", 143, 1);
}

TEST_F(TrainerSource, AnAwsRebalanceSavesAndContinues) {
  const auto job = start_in_cloud("aws");
  server_.set_rebalance(R"({"noticeTime": "2026-03-01T12:00:00Z"})");
  wait_for_events(*job, "save_finished", 1);
  EXPECT_EQ(events("save_finished").at(0)["reason"]["kind"], "user");
  EXPECT_TRUE(job->running());
  server_.set_instance_action(R"({"action": "hibernate", "time": ")" + iso_time_in(120s) + "\"}");
  expect_saved(*job, "metadata server of AWS", 42, 2);
}

TEST_F(TrainerSource, AzureLearnsThatTheStateIsSaved) {
  const auto job = start_in_cloud("azure", {{"REPRIEVE_TERMINATION_GRACE_MARGIN_S", "25"}});
  EXPECT_TRUE(server_.acknowledgements().empty());
  server_.set_scheduled_events(R"({"DocumentIncarnation": 2, "Events": [{"EventId": "E7", "EventType": "Preempt",
      "EventStatus": "Scheduled", "Resources": ["node-0"], "NotBefore": ")" +
                               http_time_in(30s) + R"("}]})");
  wait_for_events(*job, "train_on", 1);
  EXPECT_TRUE(server_.acknowledgements().empty()) << "the last save is still to come";
  expect_saved(*job, "metadata server of Azure", 42, 2);
  EXPECT_EQ(server_.acknowledgements(), std::vector<std::string>{R"({"StartRequests":[{"EventId":"E7"}]})"});
}

TEST_F(TrainerSource, OneRankOfANodeAsks) {
  const auto job = start_in_cloud("aws");
  ASSERT_TRUE(wait_until([&] { return server_.http().requests().size() > 20; }, kHang));
  std::size_t tokens = 0;
  for (const ServedRequest& request : server_.http().requests()) {
    tokens += request.method == "PUT" ? 1U : 0U;
  }
  EXPECT_EQ(tokens, 1U) << "each poller fetches its own";
  server_.set_instance_action(R"({"action": "hibernate", "time": ")" + iso_time_in(120s) + "\"}");
  expect_saved(*job, "metadata server of AWS", 42, 1);
}

TEST_F(TrainerSource, AServerThatAnswersTooSlowlyDoesNotDisturbTheTraining) {
  server_.set_form(ServedReply::Form::drip);
  MpiCommand command = this->command(kRanksOfSources);
  command.environment.merge(server_.environment("aws"));
  command.environment["REPRIEVE_TERMINATION_POLL_INTERVAL_S"] = "0.05";
  const Result result = finish(*start(command));
  check_same_end(result, kRanksOfSources);
  const std::string complaint = "metadata server of AWS: it failed";
  const auto first = result.err.find(complaint);
  EXPECT_TRUE(first == std::string::npos || result.err.find(complaint, first + 1) == std::string::npos) << result.err;
}

/// Once when the platform is looked for, and once when the platform is given.
TEST_F(TrainerSource, WithoutLibcurlItIsSaidAndTheTrainingContinues) {
  const std::string way_out = "install libcurl4";
  for (const bool is_given : {false, true}) {
    MpiCommand command = this->command(kRanksOfSources);
    command.environment.merge(server_.environment("aws"));
    command.environment["LD_PRELOAD"] = REPRIEVE_NO_CURL;
    command.environment["REPRIEVE_PLATFORM"] = is_given ? std::optional<std::string>("aws") : std::nullopt;
    std::filesystem::remove_all(checkpoints_);
    const Result result = finish(*start(command));
    check_same_end(result, kRanksOfSources);
    EXPECT_THAT(result.err,
                HasSubstr(is_given ? "metadata server of AWS: it failed" : "is not known: metadata servers"));
    const std::size_t first = result.err.find(way_out);
    ASSERT_NE(first, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find(way_out, first + 1), std::string::npos) << "once is enough: " << result.err;
  }
  EXPECT_TRUE(server_.http().requests().empty());
}

/// A scontrol that says that the job has been chosen for preemption, in the form of Slurm 22.05.
TEST_F(TrainerSource, SlurmIsAskedForWhatTheEnvironmentDoesNotSay) {
  const auto tools = directory_ / "bin";
  std::filesystem::create_directories(tools);
  std::ofstream(tools / "scontrol") << "#!/bin/sh\n[ \"$*\" = 'show job 7' ] && cat " << (directory_ / "job").string()
                                    << "\n";
  std::filesystem::permissions(tools / "scontrol", std::filesystem::perms::owner_all);
  std::ofstream(directory_ / "job") << "JobId=7 JobName=x\n   JobState=RUNNING Reason=None\n   Requeue=1\n"
                                    << "   StartTime=2026-03-01T11:50:00 EndTime=Unknown Deadline=N/A\n"
                                    << "   PreemptEligibleTime=2026-03-01T11:50:00 PreemptTime=2026-03-01T11:59:00\n";
  const auto job = start_on({{"SLURM_JOB_ID", "7"},
                             {"PATH", tools.string() + ":" + std::getenv("PATH")},
                             {"OMPI_MCA_plm", "^slurm"},
                             {"OMPI_MCA_ras", "^slurm"}});
  expect_saved(*job, "deadline", 42, 1);
}

TEST_F(TrainerSource, APodHasItsGracePeriod) {
  const auto job = start_on({{"REPRIEVE_PLATFORM", "kubernetes"}, {"TERMINATION_GRACE_PERIOD_SECONDS", "5"}});
  wait_for_events(*job, "ready", 1);
  ASSERT_TRUE(job->send_to_rank(1, SIGTERM));
  wait_for_events(*job, "train_on", 1);
  ASSERT_GT(job->send_to_ranks(SIGTERM), 0);  // told again while it trains on: that changes nothing
  expect_saved(*job, "signal SIGTERM", 42, 2);
}

TEST_F(TrainerSource, AManagedAcceleratorJobIsHeldUntilItIsTaken) {
  const auto job = start_on(
      {{"REPRIEVE_PLATFORM", "restart-managed"}, {"REPRIEVE_DEVICE", "gpu"}, {"REPRIEVE_LOG_OTHER_RANKS", "info"}});
  wait_for_events(*job, "ready", 1);
  ASSERT_TRUE(job->send_to_rank(1, SIGTERM));
  wait_for_events(*job, "exit", 1);
  const std::string holding = "waiting until the processes of this run are taken";
  const auto both_hold = [&] {
    const std::string log = job->err();
    const auto first = log.find(holding);
    return first != std::string::npos && log.find(holding, first + 1) != std::string::npos;
  };
  ASSERT_TRUE(wait_until(both_hold, kHang)) << job->err();
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(job->ranks().size(), 2U) << "nobody has been taken yet";
  while (job->running() && job->send_to_rank(1, SIGTERM)) {
    std::this_thread::sleep_for(100ms);
  }
  expect_saved(*job, "signal SIGTERM", 42, 1);
}

}  // namespace
}  // namespace reprieve::test
