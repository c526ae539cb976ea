// SPDX-License-Identifier: BSD-3-Clause
// The sources of notices, alone and together, against a real server and real files.

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/log.hpp"
#include "core/run_record.hpp"
#include "reprieve/error.hpp"
#include "support/environment_lookup.hpp"
#include "support/metadata_server.hpp"
#include "support/temporary_directory.hpp"
#include "termination/notice_sources.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::termination {
namespace {

using namespace std::chrono_literals;
using test::lookup_in;
using test::MetadataServerDouble;
using test::ServedReply;
using test::wait_until;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Clock = std::chrono::steady_clock;

constexpr auto kHang = 60s;

class MetadataSource : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<PolledSource> source(const std::string& cloud, MetadataServer server) const {
    return make_metadata_source(server, test::lookup_of(server_.environment(cloud)));
  }
  MetadataServerDouble server_;
  std::stop_token never_;
};

TEST_F(MetadataSource, Gce) {
  const auto gce = source("gce", MetadataServer::gce);
  EXPECT_FALSE(gce->ask(never_));
  server_.set_maintenance_event("TERMINATE_ON_HOST_MAINTENANCE");
  EXPECT_EQ(gce->ask(never_)->message, "TERMINATE_ON_HOST_MAINTENANCE");
  server_.set_preempted("TRUE");
  EXPECT_EQ(gce->ask(never_)->time_left, 30s);
}

TEST_F(MetadataSource, Aws) {
  const auto aws = source("aws", MetadataServer::aws);
  EXPECT_FALSE(aws->ask(never_));
  server_.set_rebalance(R"({"noticeTime": "2026-03-01T12:00:00Z"})");
  EXPECT_TRUE(aws->ask(never_)->is_hint);
  server_.set_instance_action(R"({"action": "terminate", "time": ")" + test::iso_time_in(120s) + "\"}");
  const auto announcement = aws->ask(never_);
  EXPECT_FALSE(announcement->is_hint);
  EXPECT_GT(*announcement->time_left, 60s);
  EXPECT_LE(*announcement->time_left, 120s);
}

TEST_F(MetadataSource, AwsRenewsATokenThatHasRunOut) {
  const auto aws = source("aws", MetadataServer::aws);
  EXPECT_FALSE(aws->ask(never_));
  server_.expire_tokens();
  EXPECT_FALSE(aws->ask(never_));
  server_.set_instance_action(R"({"action": "stop"})");
  EXPECT_TRUE(aws->ask(never_));
}

TEST_F(MetadataSource, AzureAcknowledgesAfterTheSave) {
  const auto azure = source("azure", MetadataServer::azure);
  EXPECT_FALSE(azure->ask(never_));
  azure->saved();
  EXPECT_THAT(server_.acknowledgements(), SizeIs(0));
  server_.set_scheduled_events(R"({"DocumentIncarnation": 2, "Events": [
      {"EventId": "E1", "EventType": "Preempt", "Resources": ["node-0"], "NotBefore": ")" +
                               test::http_time_in(30s) + R"("},
      {"EventId": "E2", "EventType": "Preempt", "Resources": ["node-1"], "NotBefore": ")" +
                               test::http_time_in(30s) + R"("}]})");
  const auto announcement = azure->ask(never_);
  ASSERT_TRUE(announcement);
  EXPECT_LE(*announcement->time_left, 30s);
  EXPECT_THAT(server_.acknowledgements(), SizeIs(0));
  azure->saved();
  ASSERT_THAT(server_.acknowledgements(), SizeIs(1));
  EXPECT_EQ(server_.acknowledgements()[0], R"({"StartRequests":[{"EventId":"E1"}]})");
}

TEST_F(MetadataSource, OneQuestionWithoutAnAnswerHidesNoOther) {
  const auto gce = source("gce", MetadataServer::gce);
  for (const int status : {404, 429, 503}) {
    server_.set_maintenance_event("TERMINATE_ON_HOST_MAINTENANCE");
    server_.set_status(status, "/preempted");
    EXPECT_TRUE(gce->ask(never_)) << status;
    server_.set_maintenance_event("NONE");
    EXPECT_THROW(gce->ask(never_), Error) << status;
    server_.set_preempted("TRUE");
    server_.set_status(status, "/maintenance-event");
    EXPECT_TRUE(gce->ask(never_)) << status;
    server_.set_preempted("FALSE");
  }
  const auto aws = source("aws", MetadataServer::aws);
  server_.set_rebalance(R"({"noticeTime": "2026-03-01T12:00:00Z"})");
  server_.set_status(503, "/instance-action");
  EXPECT_TRUE(aws->ask(never_)->is_hint);
}

TEST_F(MetadataSource, AzureTakesNoEventForItsOwnWithoutItsName) {
  const auto azure = source("azure", MetadataServer::azure);
  server_.set_scheduled_events(R"({"DocumentIncarnation": 2, "Events": [
      {"EventId": "E1", "EventType": "Preempt", "Resources": ["node-1"], "NotBefore": ""}]})");
  server_.set_status(500, "/compute/name");
  EXPECT_THROW(azure->ask(never_), Error);
  azure->saved();
  EXPECT_THAT(server_.acknowledgements(), SizeIs(0));
  server_.set_status(std::nullopt);
  EXPECT_FALSE(azure->ask(never_));
}

TEST_F(MetadataSource, AnAnswerMayComeLate) {
  const auto aws = source("aws", MetadataServer::aws);
  server_.set_instance_action(R"({"action": "stop"})");
  server_.set_form(ServedReply::Form::proper, 2500ms);
  EXPECT_TRUE(aws->ask(never_));
}

TEST_F(MetadataSource, AServerThatDoesNotAnswerAsItShouldIsAnError) {
  for (const auto& [cloud, server] : std::vector<std::pair<std::string, MetadataServer>>{
           {"gce", MetadataServer::gce}, {"aws", MetadataServer::aws}, {"azure", MetadataServer::azure}}) {
    const auto asked = source(cloud, server);
    server_.set_form(ServedReply::Form::garbage);
    EXPECT_THROW(asked->ask(never_), Error) << cloud;
    server_.set_form(ServedReply::Form::proper);
    server_.set_status(503);
    EXPECT_THROW(asked->ask(never_), Error) << cloud;
    server_.set_status(std::nullopt);
    EXPECT_FALSE(asked->ask(never_)) << cloud << " answers again";
  }
}

/// Gives what the test puts in.
class Script : public PolledSource {
 public:
  struct State {
    std::mutex mutex;
    std::optional<Announcement> announcement;
    bool fails = false;
    int asked = 0;
    int saved = 0;
  };
  explicit Script(State& state) : state_(state) {}
  [[nodiscard]] std::string name() const override { return "script"; }
  [[nodiscard]] bool keeps_asking() const override { return true; }
  std::optional<Announcement> ask(const std::stop_token& /*stop*/) override {
    const std::lock_guard lock(state_.mutex);
    ++state_.asked;
    if (state_.fails) {
      throw Error(ErrorCode::io, "no answer");
    }
    return state_.announcement;
  }
  void saved() override { ++state_.saved; }

 private:
  State& state_;
};

class PolledScript : public ::testing::Test {
 protected:
  void find(std::optional<Announcement> announcement) {
    const std::lock_guard lock(state_.mutex);
    state_.announcement = std::move(announcement);
  }
  void fail(bool fails) {
    const std::lock_guard lock(state_.mutex);
    state_.fails = fails;
  }
  [[nodiscard]] int asked() {
    const std::lock_guard lock(state_.mutex);
    return state_.asked;
  }
  /// What is found now has been seen.
  void wait_for_two_questions() {
    const int before = asked();
    ASSERT_TRUE(wait_until([&] { return asked() >= before + 2; }, kHang));
  }
  void wait_for_notice() {
    ASSERT_TRUE(wait_until([&] { return poller.notice().has_value(); }, kHang));
  }
  Script::State state_;
  Poller poller{std::make_unique<Script>(state_), 1ms};
};

TEST_F(PolledScript, ANoticeIsKeptUntilItIsAcknowledged) {
  EXPECT_FALSE(poller.notice());
  find(Announcement{"1", "first"});
  wait_for_notice();
  EXPECT_EQ(poller.notice()->source, "script");
  find(std::nullopt);
  wait_for_two_questions();
  EXPECT_EQ(poller.notice()->message, "first");
}

TEST_F(PolledScript, TheSameAnnouncementCountsOnce) {
  find(Announcement{"1", "first"});
  wait_for_notice();
  poller.acknowledge();
  wait_for_two_questions();
  EXPECT_FALSE(poller.notice()) << "it is still announced, but was acted on";
  find(Announcement{"2", "second"});
  wait_for_notice();
  poller.acknowledge();
  find(std::nullopt);
  wait_for_two_questions();
  find(Announcement{"2", "second"});
  EXPECT_TRUE(wait_until([&] { return poller.notice().has_value(); }, kHang)) << "it was withdrawn in between";
}

TEST_F(PolledScript, AnEarlierDeadlineReplacesTheFirst) {
  find(Announcement{"1", "maintenance", 1h});
  wait_for_notice();
  const auto first = *poller.notice();
  find(Announcement{"2", "preempted", 30s});
  ASSERT_TRUE(wait_until([&] { return *poller.notice()->deadline < *first.deadline - 30min; }, kHang));
  EXPECT_EQ(poller.notice()->time, first.time);
  find(Announcement{"3", "later again", 2h});
  wait_for_two_questions();
  EXPECT_EQ(poller.notice()->message, "preempted");
}

TEST_F(PolledScript, AHintIsNoNotice) {
  find(Announcement{"1", "maybe", {}, true});
  std::optional<std::string> hint;
  ASSERT_TRUE(wait_until([&] { return (hint = poller.take_hint()).has_value(); }, kHang));
  EXPECT_EQ(hint, "maybe");
  EXPECT_FALSE(poller.notice());
  wait_for_two_questions();
  EXPECT_FALSE(poller.take_hint()) << "the same one again";
}

TEST_F(PolledScript, AFailureIsToldOnceAndItContinues) {
  ::testing::internal::CaptureStderr();
  fail(true);
  wait_for_two_questions();
  wait_for_two_questions();
  fail(false);
  find(Announcement{"1", "first"});
  wait_for_notice();
  const std::string log = ::testing::internal::GetCapturedStderr();
  const auto first = log.find("script: it failed, and is asked again: no answer");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("failed", first + 20), std::string::npos) << log;
}

TEST_F(PolledScript, OnlyASourceThatGaveNoticeLearnsOfTheSave) {
  poller.saved();
  EXPECT_EQ(state_.saved, 0);
  find(Announcement{"1", "first"});
  wait_for_notice();
  poller.saved();
  EXPECT_EQ(state_.saved, 1);
}

TEST_F(MetadataSource, ASilentServerDoesNotHoldUpTheEnd) {
  server_.set_form(ServedReply::Form::silence);
  const Poller poller(source("azure", MetadataServer::azure), 1ms);  // its first question waits for minutes
  ASSERT_TRUE(wait_until([&] { return !server_.http().requests().empty(); }, kHang));
}  // the end of the test hangs if the poller waits for its answer

TEST(MergedNotices, TheEarliestDeadlineWins) {
  const auto now = Clock::now();
  EXPECT_FALSE(merged({}));
  const auto both = merged({{"late", "", now + 1s, now + 20s}, {"early", "", now, now + 60s}});
  EXPECT_EQ(both->source, "early");
  EXPECT_EQ(both->deadline, now + 20s);
  // A notice that grants no time ends that of others.
  EXPECT_EQ(merged({{"x", "", now, now + 60s}, {"y", "", now + 5s, std::nullopt}})->deadline, now + 5s);
  EXPECT_EQ(merged({{"x", "", now, std::nullopt}, {"y", "", now + 5s, std::nullopt}})->deadline, std::nullopt);
}

class Sources : public ::testing::Test {
 protected:
  Sources() { settings_.poll_interval = 1ms; }
  static LocalNotice wait_for_notice(const NoticeSources& sources) {
    EXPECT_TRUE(wait_until([&] { return sources.current().has_value(); }, kHang));
    return sources.current().value_or(LocalNotice{});
  }
  test::TemporaryDirectory directory_;
  SourceSettings settings_;
};

TEST_F(Sources, AFileIsANoticeAndGoes) {
  settings_.preempt_file = directory_ / core::kPreemptFile;
  NoticeSources sources(settings_);
  EXPECT_FALSE(sources.current());
  std::ofstream{*settings_.preempt_file};
  const auto notice = wait_for_notice(sources);
  EXPECT_EQ(notice.source, "file PREEMPT");
  EXPECT_THAT(notice.message, HasSubstr(settings_.preempt_file->string()));
  EXPECT_FALSE(notice.deadline);
  EXPECT_FALSE(std::filesystem::exists(*settings_.preempt_file));
  sources.acknowledge();
  EXPECT_FALSE(sources.current());
  std::ofstream{*settings_.preempt_file};
  EXPECT_EQ(wait_for_notice(sources).source, "file PREEMPT");
}

TEST_F(Sources, AFileForAnotherLaunchGoesAndIsNoNotice) {
  settings_.preempt_file = directory_ / core::kPreemptFile;
  std::ofstream(directory_ / core::kLockName) << "this launch\n";
  std::ofstream(*settings_.preempt_file) << core::kForLaunch << "an earlier launch\n";
  NoticeSources sources(settings_);
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::exists(*settings_.preempt_file); }, kHang));
  EXPECT_FALSE(sources.current());
  std::ofstream(directory_ / "new") << core::kForLaunch << "this launch\n";
  std::filesystem::rename(directory_ / "new", *settings_.preempt_file);
  EXPECT_EQ(wait_for_notice(sources).source, "file PREEMPT");
}

TEST_F(Sources, ARequestForACheckpointIsAHint) {
  settings_.save_file = directory_ / core::kSaveFile;
  NoticeSources sources(settings_);
  for (int i = 0; i < 2; ++i) {
    std::ofstream{*settings_.save_file};
    std::optional<std::string> hint;
    EXPECT_TRUE(wait_until([&] { return (hint = sources.take_hint()).has_value(); }, kHang));
    EXPECT_THAT(hint.value_or(""), HasSubstr(settings_.save_file->string()));
    EXPECT_FALSE(std::filesystem::exists(*settings_.save_file));
  }
  EXPECT_FALSE(sources.any());
}

TEST_F(Sources, AKnownEndIsANoticeBeforehand) {
  const auto end = WallClock::now() + 100s;
  settings_.deadline = DeadlineSettings{.known = JobEnd{end, 1h}, .slurm_job = {}, .lead = 10s};
  {
    const NoticeSources early(settings_);
    std::this_thread::sleep_for(20ms);
    EXPECT_FALSE(early.current());
  }
  settings_.deadline->lead = 200s;
  const NoticeSources sources(settings_);
  const auto notice = wait_for_notice(sources);
  EXPECT_EQ(notice.source, "deadline");
  EXPECT_GT(*notice.deadline, Clock::now() + 30s);
  EXPECT_LE(*notice.deadline, Clock::now() + 100s);
}

TEST_F(Sources, AllAtOnce) {
  MetadataServerDouble server;
  const auto environment = server.environment("aws");
  ::setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", environment.at("AWS_EC2_METADATA_SERVICE_ENDPOINT")->c_str(), 1);
  server.set_instance_action(R"({"action": "stop", "time": ")" + test::iso_time_in(300s) + "\"}");
  settings_.metadata = MetadataServer::aws;
  settings_.preempt_file = directory_ / core::kPreemptFile;
  settings_.grace = 500s;
  settings_.watcher_fn = [] {
    WatchResult result(true);
    result.time_left = 100s;
    return result;
  };
  settings_.deadline = DeadlineSettings{.known = JobEnd{WallClock::now() + 400s, 0s}, .slurm_job = {}, .lead = 1h};
  NoticeSources sources(settings_);
  ::unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  std::ofstream{*settings_.preempt_file};
  const auto tightest = [&] {
    const auto notice = sources.current();
    return notice && notice->deadline && *notice->deadline <= Clock::now() + 100s;
  };
  EXPECT_TRUE(wait_until(tightest, kHang));
  sources.acknowledge();
}

const WallClock::time_point kStart{1'000'000s};

TEST(JobEndInEnvironment, Slurm) {
  const auto job = end_in_environment(
      Platform::slurm, lookup_in({{"SLURM_JOB_START_TIME", "999000"}, {"SLURM_JOB_END_TIME", "1002600"}}), kStart);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->end, kStart + 2600s);
  EXPECT_EQ(job->whole_time, 3600s);
  EXPECT_FALSE(end_in_environment(Platform::slurm, lookup_in({}), kStart));
  EXPECT_FALSE(end_in_environment(Platform::slurm, lookup_in({{"SLURM_JOB_END_TIME", "never"}}), kStart));
}

TEST(JobEndInEnvironment, Pbs) {
  EXPECT_EQ(end_in_environment(Platform::pbs, lookup_in({{"PBS_WALLTIME", "5400"}}), kStart)->end, kStart + 90min);
  EXPECT_EQ(end_in_environment(Platform::pbs, lookup_in({{"PBS_WALLTIME", "1:30:00"}}), kStart)->end, kStart + 90min);
  for (const char* bad : {"", "0", "-5", "1:x", "::", "unlimited"}) {
    EXPECT_FALSE(end_in_environment(Platform::pbs, lookup_in({{"PBS_WALLTIME", bad}}), kStart)) << bad;
  }
  EXPECT_FALSE(end_in_environment(Platform::other, lookup_in({{"PBS_WALLTIME", "5400"}}), kStart));
}

/// Centuries are no reason to end at once.
TEST(JobEndInEnvironment, WhatIsTooFarAwayToBeCountedIsNotOver) {
  const auto now = WallClock::now();
  for (const char* far :
       {"9999999999", "99999999999999999999999", "9999999999:00:00", "1000000:0:9223372036854775807"}) {
    const auto job = end_in_environment(Platform::pbs, lookup_in({{"PBS_WALLTIME", far}}), now);
    ASSERT_TRUE(job) << far;
    EXPECT_GT(job->end, now + 200 * 365 * 24h) << far;
    EXPECT_GT(job->whole_time, 200 * 365 * 24h) << far;
    EXPECT_EQ(lead_before_end(*job, std::nullopt), 120s) << far;
    EXPECT_EQ(make_deadline_source({job, {}, {}})->ask({}), std::nullopt) << far;
  }
  const auto job = end_in_environment(
      Platform::slurm, lookup_in({{"SLURM_JOB_START_TIME", "0"}, {"SLURM_JOB_END_TIME", "253402214400"}}), now);
  ASSERT_TRUE(job);
  EXPECT_GT(job->end, now + 200 * 365 * 24h);
  EXPECT_EQ(make_deadline_source({job, {}, std::chrono::milliseconds::max()})->ask({}), std::nullopt);
}

TEST(LeadBeforeEnd, IsAtMostHalfOfTheTime) {
  EXPECT_EQ(lead_before_end({kStart, 1h}, std::nullopt), 120s);
  EXPECT_EQ(lead_before_end({kStart, 100s}, std::nullopt), 25s);
  EXPECT_EQ(lead_before_end({kStart, 100s}, 90s), 50s);
  EXPECT_EQ(lead_before_end({kStart, 0s}, 90s), 90s);
}

TEST(ShortCommand, ItsOutputIsReadUnlessItFails) {
  EXPECT_EQ(output_of({"sh", "-c", "printf '%s' \"$X$HOME\""}, {{"X", "x"}, {"HOME", std::nullopt}}, kHang), "x");
  EXPECT_FALSE(output_of({"/no/such/program"}, {}, kHang));
  EXPECT_FALSE(output_of({"sh", "-c", "echo x; exit 3"}, {}, kHang));
  EXPECT_FALSE(output_of({"sh", "-c", "kill -9 $$"}, {}, kHang));
  EXPECT_FALSE(output_of({"cat", "/dev/zero"}, {}, kHang)) << "more than anybody wants to read";
}

TEST(ShortCommand, WhatHangsIsKilled) {
  EXPECT_FALSE(output_of({"sleep", "1000"}, {}, 100ms));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(output_of({"sleep", "1000"}, {}, 1h, stop.get_token()));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

}  // namespace
}  // namespace reprieve::termination
