// SPDX-License-Identifier: BSD-3-Clause
// How a run stands, by the events that it has left.

#include <gmock/gmock.h>

#include "core/events.hpp"
#include "status.hpp"
#include "support/logged_events.hpp"
#include "timeline.hpp"

namespace reprieve::tool {
namespace {

using namespace std::chrono_literals;
using ::testing::MatchesRegex;
using Event = nlohmann::json;

const TimePoint kNoon = std::chrono::sys_days(std::chrono::year(2026) / 3 / 1) + 12h;

Event event(const char* name, std::chrono::seconds after_noon, Event fields = Event::object()) {
  fields["event"] = name;
  fields["time"] = core::event_time(kNoon + after_noon);
  fields["monotonic_s"] = 1000.0 + static_cast<double>(after_noon.count());
  return fields;
}

Event start(std::chrono::seconds at) {
  return event("start", at, {{"host", "node17"}, {"pid", 4711}, {"world_size", 4}});
}
Event ready(std::chrono::seconds at, int step) { return event("ready", at, {{"run_calls", step}}); }
Event save(std::chrono::seconds at, int step) {
  return event("save_finished", at, {{"number", step}, {"run_calls", step}, {"bytes", 1000}});
}

RunStatus status(const std::vector<Event>& events, bool lives = true) {
  return Timeline(test::log_of(events)).status("run", lives).value_or(RunStatus{});
}

TEST(RunStatus, NoneWithoutAStart) {
  EXPECT_FALSE(Timeline().status("run", true).has_value());
  EXPECT_FALSE(Timeline({test::logged(event("retired", 0s))}).status("run", true).has_value());
}

TEST(RunStatus, OfARunThatWorks) {
  const RunStatus run = status({start(0s), ready(10s, 100), save(60s, 200)});
  EXPECT_EQ(run.state, RunState::running);
  EXPECT_EQ(run.start.host, "node17");
  EXPECT_EQ(run.start.world_size, 4);
  EXPECT_EQ(run.reported_step, 200U);
  ASSERT_TRUE(run.steps_per_second.has_value());
  EXPECT_DOUBLE_EQ(*run.steps_per_second, 2.0);
  EXPECT_EQ(run.step_at(kNoon + 90s), 260U) << "thirty seconds at two steps a second";
  EXPECT_EQ(run.at_risk(kNoon + 90s), 30s);
}

TEST(RunStatus, BeforeTheFirstSaveAllIsAtRisk) {
  const RunStatus run = status({start(0s), ready(10s, 0)});
  EXPECT_EQ(run.at_risk(kNoon + 70s), 70s);
  EXPECT_FALSE(run.steps_per_second.has_value());
  EXPECT_EQ(run.step_at(kNoon + 70s), 0U) << "no rate, no guess";
}

TEST(RunStatus, WhatAnEarlierStartSavedIsNotAtRiskFromThen) {
  const RunStatus run = status({start(0s), ready(1s, 0), save(60s, 50), start(600s), ready(601s, 50)});
  EXPECT_EQ(run.starts, 2);
  EXPECT_EQ(run.at_risk(kNoon + 610s), 10s);
}

Event local_copy(std::chrono::seconds at, int step, std::chrono::seconds taken, bool with_partner = false) {
  return event("local_copies", at,
               {{"count", 1},
                {"seconds", 0.1},
                {"step", step},
                {"taken", core::event_time(kNoon + taken)},
                {"bytes", 500},
                {"partner", with_partner}});
}

TEST(RunStatus, AnOlderCopyAtThePartnersHasItsOwnAge) {
  Event copy = local_copy(90s, 140, 80s);
  copy["partner_step"] = 120;
  copy["partner_taken"] = core::event_time(kNoon + 30s);
  const RunStatus run = status({start(0s), ready(10s, 0), copy});
  ASSERT_TRUE(run.local);
  EXPECT_FALSE(run.local->has_partners);
  EXPECT_EQ(run.local->partner_step, 120U);
  EXPECT_EQ(run.local->partner_time, kNoon + 30s);
  EXPECT_EQ(run.local->memory(), 5 * 500U);
  EXPECT_EQ(to_json(run, kNoon + 100s).at("local_copy").at("partner_step"), 120);
}

/// An event of --after-commit, by a supervisor whose clock is another one.
Event copy_event(const char* name, std::chrono::seconds at, Event fields = Event::object()) {
  fields.update({{"file", "ckpt-100.h5"}, {"attempt", 2}, {"attempts", 3}});
  Event made = event(name, at, fields);
  made["monotonic_s"] = 1e6;
  return made;
}

TEST(RunStatus, TheCopyElsewhereOfEachCheckpoint) {
  Event saved = save(60s, 100);
  saved["file"] = "ckpt-100.h5";
  const Event begun = copy_event("after_commit_started", 61s, {{"host", "node17"}, {"pid", 4712}});
  const Event failed = copy_event("after_commit_failed", 70s, {{"code", 3}, {"message", "no network"}});
  const auto after = [&](std::vector<Event> more) {
    more.insert(more.begin(), {start(0s), ready(10s, 0), saved});
    return status(more);
  };
  EXPECT_EQ(after({}).copy_of("run/ckpt-100.h5"), nullptr);
  EXPECT_EQ(to_json(after({}), kNoon)["copy"], Json());
  EXPECT_EQ(after({begun}).copy_of("run/ckpt-100.h5")->state, CopyState::copying);
  EXPECT_EQ(to_json(after({begun}), kNoon)["copy"]["code"], Json());
  const RunStatus run = after({begun, failed});
  EXPECT_EQ(to_json(run, kNoon)["copy"],
            Json::parse(R"({"state": "failed", "time": "2026-03-01T12:01:10Z", "code": 3, "attempt": 2, "attempts": 3,
                            "message": "no network", "file": "ckpt-100.h5"})"));
  EXPECT_THAT(copy_text(run.last_copy, *run.copy_of(run.last_copy)),
              MatchesRegex("copy failed: ckpt-100.h5, .* ago: code 3 \\(2 of 3 tries\\): no network"));
  EXPECT_EQ(after({failed, begun, copy_event("after_commit", 75s, {{"code", 0}})}).copies.at("ckpt-100.h5").state,
            CopyState::copied);
  EXPECT_TRUE(after({begun, event("after_commit_retired", 70s, {{"file", "ckpt-100.h5"}})}).copies.empty());
  EXPECT_TRUE(after({begun, saved}).copies.empty()) << "another checkpoint has that name now";
  EXPECT_EQ(run.state, RunState::running);
  EXPECT_EQ(run.reported_at, kNoon + 60s);
  EXPECT_EQ(Timeline(test::log_of({start(0s), ready(10s, 0), saved, begun})).history().observed_s, 60)
      << "the clock of the supervisor says nothing of the run";
}

TEST(RunStatus, ALocalCopyTakesTheRiskOfACrash) {
  Event begin = start(0s);
  begin["local_directory"] = "/dev/shm";
  const RunStatus run = status({begin, ready(10s, 0), save(60s, 100), local_copy(90s, 140, 80s, true)});
  ASSERT_TRUE(run.local.has_value());
  EXPECT_EQ(run.local->step, 140U);
  EXPECT_EQ(run.local->memory(), 2000U) << "two on each node, and two for its partner";
  EXPECT_EQ(run.at_risk(kNoon + 100s), 20s);
  EXPECT_EQ(run.at_risk_with_nodes(kNoon + 100s), 40s);
  const Json json = to_json(run, kNoon + 100s);
  EXPECT_EQ(json.at("local_copy").at("directory"), "/dev/shm");
  EXPECT_EQ(json.at("local_copy").at("partners"), true);
  EXPECT_EQ(json.at("at_risk_s"), 20.0);
}

TEST(RunStatus, ALocalCopyThatIsOlderThanACheckpointCountsForNothing) {
  const std::vector<Event> events{start(0s), ready(10s, 0), local_copy(90s, 140, 80s)};
  const auto with = [&](std::vector<Event> more) {
    more.insert(more.begin(), events.begin(), events.end());
    return status(more);
  };
  EXPECT_TRUE(with({}).local);
  EXPECT_FALSE(with({save(95s, 150)}).local);
  EXPECT_TRUE(with({save(95s, 130)}).local) << "a save in the background is of an older step";
  EXPECT_FALSE(with({save(95s, 150), local_copy(96s, 140, 80s)}).local);
  EXPECT_FALSE(with({event("finished", 99s, {{"run_calls", 160}})}).local) << "the memory is given back";
  EXPECT_FALSE(with({start(100s)}).local) << "this one has taken none yet";
  EXPECT_TRUE(with({event("error", 99s, {{"message", "no more data"}})}).local);
}

TEST(RunStatus, EndsThatWereReported) {
  EXPECT_EQ(status({start(0s), ready(1s, 0), event("finished", 9s, {{"run_calls", 5}})}).state, RunState::finished);
  EXPECT_EQ(status({start(0s), ready(1s, 0), event("exit", 9s, {{"run_calls", 5}})}).state, RunState::saved);
  const RunStatus failed = status({start(0s), ready(1s, 0), event("error", 9s, {{"message", "rank 3: no more data"}})});
  EXPECT_EQ(failed.state, RunState::failed);
  EXPECT_EQ(failed.message, "rank 3: no more data");
  EXPECT_FALSE(failed.at_risk(kNoon + 10s).has_value());
}

TEST(RunStatus, AnEndWithoutAWord) {
  const RunStatus run = status({start(0s), ready(10s, 100), save(60s, 200)}, false);
  EXPECT_EQ(run.state, RunState::gone);
  EXPECT_EQ(run.step_at(kNoon + 90s), 200U) << "it makes no more steps";
  EXPECT_FALSE(run.at_risk(kNoon + 90s).has_value());
  EXPECT_EQ(status({start(0s)}, false).state, RunState::gone);
  EXPECT_EQ(status({start(0s)}, true).state, RunState::starting);
}

TEST(RunStatus, OfAManagerWithoutAHandlerNobodyReportsTheEnd) {
  const std::vector<Event> events{start(0s), save(5s, 1)};
  EXPECT_EQ(status(events, false).state, RunState::ended);
  EXPECT_EQ(status(events, true).state, RunState::running);
  EXPECT_FALSE(status(events, true).has_handler);
  EXPECT_EQ(status({start(0s), save(5s, 1), start(9s)}, false).state, RunState::gone)
      << "the later start saved nothing";
}

TEST(RunStatus, HowLongItStillTakes) {
  Event begin = ready(10s, 100);
  begin["total_steps"] = 500;
  begin["job_end"] = core::event_time(kNoon + 1h);
  begin["slurm_job"] = "15_3";
  const RunStatus run = status({start(0s), begin, event("step", 60s, {{"run_calls", 200}})});
  EXPECT_EQ(run.step_at(kNoon + 90s), 260U);
  EXPECT_EQ(run.time_left(kNoon + 90s), 120s);
  EXPECT_EQ(run.time_left(kNoon + 2h), 0s) << "it is late, but not further than its end";
  EXPECT_EQ(run.step_at(kNoon + 2h), 500U);
  EXPECT_EQ(run.job_end, kNoon + 1h);
  EXPECT_EQ(run.slurm_job, "15_3");
  EXPECT_FALSE(status({start(0s), begin}, false).time_left(kNoon).has_value());
}

TEST(RunStatus, ANoticeIsToldUntilTheRunContinues) {
  const Event notice = event("notice", 5s, {{"source", "signal SIGTERM"}});
  EXPECT_EQ(status({start(0s), ready(1s, 0), notice}).state, RunState::leaving);
  EXPECT_EQ(status({start(0s), ready(1s, 0), notice}).message, "signal SIGTERM");
  const RunStatus on = status({start(0s), ready(1s, 0), notice, event("went_on", 6s, {{"run_calls", 7}})});
  EXPECT_EQ(on.state, RunState::running);
  EXPECT_EQ(on.message, "");
}

// The user's jobs as Slurm lists them.

TEST(SlurmQueue, ListsJobsAndTasksOfArrays) {
  const auto jobs = parse_squeue(
      "17|RUNNING|1-02:03:04|node[1-2]|heat\n"
      "slurm_load_jobs error: Unable to contact slurm controller\n\n"
      "15_[4-9]|PENDING|2:00:00|(Priority)|a name | with a bar\n");
  ASSERT_EQ(jobs.size(), 2U) << "an error is no job";
  EXPECT_EQ(jobs[0].id, "17");
  EXPECT_EQ(jobs[0].state, "RUNNING");
  EXPECT_EQ(jobs[0].time_left, "1-02:03:04");
  EXPECT_EQ(jobs[0].where, "node[1-2]");
  EXPECT_EQ(jobs[0].name, "heat");
  EXPECT_EQ(jobs[1].id, "15_[4-9]");
  EXPECT_EQ(jobs[1].name, "a name | with a bar");
  EXPECT_TRUE(parse_squeue("").empty());
}

}  // namespace
}  // namespace reprieve::tool
