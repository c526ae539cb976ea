// SPDX-License-Identifier: BSD-3-Clause
// The trainer, told of its end in every way that a platform has.

#include <csignal>
#include <fstream>

#include "e2e/trainer_test.hpp"
#include "support/metadata_server.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

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

// A margin of 25 s makes 5 s of the 30.
TEST_F(TrainerSource, GceSpotSavesTwice) {
  const auto job = start_in_cloud("gce", {{"REPRIEVE_TERMINATION_GRACE_MARGIN_S", "25"}});
  server_.set_preempted("TRUE");
  expect_saved(*job, "metadata server of GCE", 143, 2);
}

TEST_F(TrainerSource, GceWithAGpuTrainsOnUntilThereIsLessTime) {
  const auto job = start_in_cloud("gce", {{"REPRIEVE_DEVICE", "gpu"}, {"REPRIEVE_TERMINATION_GRACE_MARGIN_S", "28"}});
  server_.set_maintenance_event("TERMINATE_ON_HOST_MAINTENANCE");
  wait_for_events(*job, "train_on", 1);
  EXPECT_GT(events("train_on").at(0)["time_left_s"], 3000.0);
  server_.set_preempted("TRUE");
  expect_saved(*job, "metadata server of GCE", 143, 2);
}

TEST_F(TrainerSource, AwsSpotSavesTwiceBeforeItsTime) {
  const auto job = start_in_cloud("aws", {{"REPRIEVE_TERMINATION_GRACE_MARGIN_S", "25"}});
  server_.set_instance_action(R"({"action": "terminate", "time": ")" + iso_time_in(30s) + "\"}");
  expect_saved(*job, "metadata server of AWS", 42, 2);
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

TEST_F(TrainerSource, AzureHearsThatTheStateIsSaved) {
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

class BadMetadataServer : public TrainerSource, public ::testing::WithParamInterface<ServedReply::Form> {};

TEST_P(BadMetadataServer, DoesNotDisturbTheTraining) {
  server_.set_form(GetParam());
  MpiCommand command = this->command(kRanksOfSources);
  command.environment.merge(server_.environment("aws"));
  command.environment["REPRIEVE_TERMINATION_POLL_INTERVAL_S"] = "0.05";
  const Result result = finish(*start(command));
  check_same_end(result, kRanksOfSources);
  const std::string complaint = "metadata server of AWS: it failed";
  const auto first = result.err.find(complaint);
  EXPECT_TRUE(first == std::string::npos || result.err.find(complaint, first + 1) == std::string::npos) << result.err;
}
INSTANTIATE_TEST_SUITE_P(Trainer, BadMetadataServer,
                         ::testing::Values(ServedReply::Form::garbage, ServedReply::Form::silence,
                                           ServedReply::Form::drip, ServedReply::Form::flood));

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

TEST_F(TrainerSource, AFileEndsTheJobPolitely) {
  const auto job = start_on({{"REPRIEVE_PLATFORM", "other"}});
  wait_for_events(*job, "ready", 1);
  std::ofstream{checkpoints_ / "PREEMPT"};
  expect_saved(*job, "file PREEMPT", 42, 1);
}

TEST_F(TrainerSource, AnEndThatIsKnownBeforehandSavesTwice) {
  const auto end = std::chrono::system_clock::now() + 40s;
  const auto end_s = std::chrono::duration_cast<std::chrono::seconds>(end.time_since_epoch()).count();
  const auto job = start_on({{"REPRIEVE_PLATFORM", "slurm"},
                             {"SLURM_JOB_ID", std::nullopt},
                             {"SLURM_JOB_START_TIME", std::to_string(end_s - 3600)},
                             {"SLURM_JOB_END_TIME", std::to_string(end_s)},
                             {"REPRIEVE_TERMINATION_GRACE_MARGIN_S", "30"}});
  expect_saved(*job, "deadline", 42, 2);
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
  expect_saved(*job, "signal SIGTERM", 42, 2);
}

TEST_F(TrainerSource, LsfWarnsWithSigusr2) {
  const auto job = start_on({{"REPRIEVE_PLATFORM", "lsf"}});
  wait_for_events(*job, "ready", 1);
  job->send(SIGUSR2);  // mpirun hands it on
  expect_saved(*job, "signal SIGUSR2", 42, 1);
}

TEST_F(TrainerSource, NoticesOnDifferentRanksAreOnePreemption) {
  const auto job = start_in_cloud("aws", {{"REPRIEVE_TERMINATION_GRACE_MARGIN_S", "1"}});
  server_.set_instance_action(R"({"action": "terminate", "time": ")" + iso_time_in(600s) + "\"}");
  wait_for_events(*job, "train_on", 1);
  ASSERT_TRUE(job->send_to_rank(1, SIGTERM));  // grants no time: the earlier end wins
  expect_saved(*job, "metadata server of AWS", 42, 2);
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
