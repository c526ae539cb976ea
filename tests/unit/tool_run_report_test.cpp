// SPDX-License-Identifier: BSD-3-Clause
// What `reprieve report` makes of event logs: starts, and where the time went.

#include <gmock/gmock.h>

#include <cmath>

#include "core/event_log.hpp"
#include "support/logged_events.hpp"
#include "timeline.hpp"

namespace reprieve::tool {
namespace {

using namespace std::chrono_literals;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using LoggedEvent = nlohmann::json;

const TimePoint kReportNoon = std::chrono::sys_days(std::chrono::year(2026) / 3 / 1) + 12h;

/// A log as a run writes it: each event some seconds after the one before.
class Log {
 public:
  Log& add(const char* name, double after_s, LoggedEvent fields = LoggedEvent::object()) {
    wall_s_ += after_s;
    monotonic_s_ += after_s;
    fields["event"] = name;
    fields["time"] = core::event_time(kReportNoon + std::chrono::microseconds(std::llround(wall_s_ * 1e6)));
    fields["monotonic_s"] = monotonic_s_;
    events_.push_back(std::move(fields));
    return *this;
  }
  Log& start(double after_s) {
    monotonic_s_ = 5000.0 - monotonic_s_ / 2;  // of another process, on another node
    return add("start", after_s, {{"host", "node17"}, {"pid", 4711}, {"world_size", 4}});
  }
  Log& ready(double after_s, int step) { return add("ready", after_s, {{"run_calls", step}}); }
  Log& restore(double after_s, int step) {
    add("restore_started", after_s, {{"file", "ckpt.h5"}});
    return add("restore", 2, {{"file", "ckpt.h5"}, {"run_calls", step}, {"seconds", 2.0}});
  }
  /// One of four seconds, of which the program stands still for @p blocked_s.
  Log& save(double after_s, int step, double blocked_s = 4, const char* kind = "periodic") {
    const LoggedEvent reason{{"kind", kind}};
    add("save_started", after_s, {{"number", step}, {"run_calls", step}, {"reason", reason}});
    return add("save_finished", 4,
               {{"number", step},
                {"run_calls", step},
                {"bytes", 1000},
                {"seconds", 4.0},
                {"blocked_seconds", blocked_s},
                {"reason", reason}});
  }
  Log& notice(double after_s, int step) {
    add("notice", after_s,
        {{"source", "signal SIGTERM"}, {"rank", 2}, {"host", "node17"}, {"age_s", 0.5}, {"time_left_s", 29.5}});
    return add("agreement", 0, {{"run_calls", step}, {"seconds_from_notice", 0.5}});
  }
  /// With its state saved.
  Log& preempted(double after_s, int step) {
    notice(after_s, step).save(0, step, 4, "preemption");
    return add("exit", 1, {{"run_calls", step}});
  }
  Log& finished(double after_s, int step) { return add("finished", after_s, {{"run_calls", step}}); }
  Log& failed(double after_s, int step, const char* message = "rank 3: no more data") {
    return add("error", after_s, {{"run_calls", step}, {"message", message}});
  }
  Log& set_back(double seconds) {
    wall_s_ -= seconds;
    return *this;
  }

  [[nodiscard]] RunReport report(bool lives = false, double later_s = 0) const {
    const Timeline timeline(test::log_of(events_));
    return timeline.report(timeline.status("run", lives).value_or(RunStatus{}), {}, now(later_s));
  }
  [[nodiscard]] TimePoint now(double later_s = 0) const {
    return kReportNoon + std::chrono::microseconds(std::llround((wall_s_ + later_s) * 1e6));
  }
  std::vector<LoggedEvent>& events() { return events_; }

 private:
  double wall_s_ = 0;
  double monotonic_s_ = 100;
  std::vector<LoggedEvent> events_;
};

/// To the precision of the times in a log.
auto about(double seconds) { return DoubleNear(seconds, 1e-4); }

/// The time from the first start to the end is told whole, and nothing is counted twice.
void expect_whole(const RunReport& report, double length_s) {
  EXPECT_THAT(report.length_s(), about(length_s));
  for (const TimeKind& kind : time_kinds()) {
    EXPECT_GE(report.times.*kind.seconds, -1e-9) << kind.id;
  }
}

TEST(RunReport, OfARunThatFinished) {
  const RunReport report = Log().start(0).ready(3, 0).save(10, 100).finished(5, 150).report();
  expect_whole(report, 22);
  EXPECT_THAT(report.times.startup_s, about(3));
  EXPECT_THAT(report.times.kept_s, about(15));
  EXPECT_THAT(report.times.save_s, about(4));
  EXPECT_EQ(report.kept_steps, 150U);
  EXPECT_EQ(report.lost_steps, 0U);
  ASSERT_EQ(report.starts.size(), 1U);
  EXPECT_EQ(report.starts[0].ending, Ending::finished);
  EXPECT_EQ(report.starts[0].host, "node17");
  EXPECT_EQ(report.starts[0].step_to, 150U);
  EXPECT_EQ(report.advice.history.finished, 1) << "the advice is that of the same runs";
}

TEST(RunReport, WhatIsWrittenInTheBackgroundCostsOnlyWhatItStops) {
  const RunReport report = Log().start(0).ready(1, 0).save(10, 100, 0.5).finished(6, 195).report();
  expect_whole(report, 21);
  EXPECT_THAT(report.times.save_s, about(0.5));
  EXPECT_THAT(report.times.kept_s, about(19.5));
}

TEST(RunReport, ANoticeCostsNoWork) {
  const RunReport report =
      Log().start(0).ready(1, 0).preempted(20, 40).start(600).restore(1, 40).ready(1, 40).finished(10, 60).report();
  expect_whole(report, 1 + 20 + 4 + 1 + 600 + 4 + 10);
  EXPECT_THAT(report.times.down_s, about(600));
  EXPECT_THAT(report.times.restore_s, about(2));
  EXPECT_THAT(report.times.lost_s, about(0));
  EXPECT_EQ(report.kept_steps, 60U);
  EXPECT_EQ(report.starts[0].ending, Ending::saved);
  EXPECT_EQ(report.starts[0].why, "signal SIGTERM");
  ASSERT_EQ(report.notices.size(), 1U);
  EXPECT_EQ(report.notices[0].rank, 2);
  EXPECT_THAT(report.notices[0].grace_s.value_or(0), about(30));
  EXPECT_THAT(report.notices[0].agreed_s.value_or(0), about(0.5));
  EXPECT_THAT(report.notices[0].committed_s.value_or(0), about(4.5));
  EXPECT_THAT(report.notices[0].left_s.value_or(0), about(5.5));
}

TEST(RunReport, AKillCostsTheWorkSinceTheLastSave) {
  Log log;
  log.start(0).ready(0, 0).save(10, 100).save(10, 200).add("steps", 6, {{"run_calls", 260}});
  const RunReport report = log.start(100).restore(1, 200).ready(0, 200).finished(5, 250).report();
  expect_whole(report, 34 + 100 + 3 + 5);
  EXPECT_EQ(report.starts[0].ending, Ending::killed);
  EXPECT_EQ(report.starts[0].why, "while it worked");
  EXPECT_THAT(report.times.lost_s, about(6));
  EXPECT_EQ(report.lost_steps, 60U);
  EXPECT_EQ(report.kept_steps, 250U);
  // It saved every 10 s, and had worked for 6 s since: after 4 s more it would have told something.
  EXPECT_THAT(report.times.unknown_s, about(4));
  EXPECT_THAT(report.times.down_s, about(96));
  EXPECT_EQ(report.starts[0].perhaps_lost_steps, 40U) << "ten steps a second";
}

TEST(RunReport, ARunThatTellsItsStepsCannotHaveWorkedLongWithoutAWord) {
  Log log;
  log.start(0).ready(0, 0).add("step", 5, {{"run_calls", 50}, {"step_s", 0.1}});
  log.add("step", 995, {{"run_calls", 9990}, {"step_s", 0.1}});
  const RunReport report = log.start(5000).ready(0, 0).finished(5, 50).report();
  EXPECT_THAT(report.times.lost_s, about(1000));
  EXPECT_THAT(report.times.unknown_s, about(60.1)) << "a word every minute, and a step";
  EXPECT_THAT(report.times.down_s, about(4939.9));
}

TEST(RunReport, OfARunThatTellsNothingAllTimeAfterItsLastWordIsUnknown) {
  const RunReport report = Log().start(0).ready(1, 0).start(100).ready(1, 0).finished(5, 50).report();
  expect_whole(report, 107);
  EXPECT_THAT(report.times.unknown_s, about(100));
  EXPECT_THAT(report.times.down_s, about(0));
  EXPECT_FALSE(report.starts[0].perhaps_lost_steps.has_value()) << "no pace is known";
}

TEST(RunReport, KilledBeforeItsFirstStepItLostNoWork) {
  const RunReport report = Log().start(0).start(50).ready(1, 0).finished(5, 50).report();
  EXPECT_EQ(report.starts[0].why, "before its first step");
  EXPECT_THAT(report.times.down_s, about(50));
  EXPECT_THAT(report.times.unknown_s, about(0));
  Log reading;
  reading.start(0).add("restore_started", 1, {{"file", "ckpt-7.h5"}});
  EXPECT_EQ(reading.start(9).ready(1, 0).report().starts[0].why, "while it read ckpt-7.h5");
}

TEST(RunReport, KilledAfterANotice) {
  Log log;
  log.start(0).ready(1, 0).save(10, 10).notice(5, 15).add("save_started", 0, {{"number", 15}, {"run_calls", 15}});
  const RunReport report = log.start(60).restore(0, 10).ready(0, 10).report();
  EXPECT_THAT(report.starts[0].why, HasSubstr("after a notice (signal SIGTERM)"));
  EXPECT_EQ(report.lost_steps, 5U);
  EXPECT_FALSE(report.notices[0].committed_s.has_value());
}

TEST(RunReport, AnErrorCostsTheWorkSinceTheLastSave) {
  const RunReport report = Log().start(0).ready(0, 0).save(10, 100).failed(3, 130).start(20).ready(0, 100).report();
  EXPECT_EQ(report.starts[0].ending, Ending::failed);
  EXPECT_EQ(report.starts[0].why, "rank 3: no more data");
  EXPECT_THAT(report.times.lost_s, about(3));
  EXPECT_EQ(report.lost_steps, 30U);
  EXPECT_THAT(report.times.unknown_s, about(0)) << "an error says when the end was";
  EXPECT_THAT(report.times.down_s, about(20));
}

TEST(RunReport, ASaveThatFailedKeepsNothing) {
  Log log;
  log.start(0).ready(0, 0).add("save_started", 10, {{"number", 100}, {"run_calls", 100}});
  log.add("save_failed", 2, {{"number", 100}, {"message", "no space"}}).add("save_skipped", 0, {{"number", 150}});
  const RunReport report = log.failed(5, 150).report();
  EXPECT_EQ(report.failed_saves, 1U);
  EXPECT_EQ(report.skipped_saves, 1U);
  EXPECT_THAT(report.times.save_s, about(2));
  EXPECT_THAT(report.times.lost_s, about(15));
  EXPECT_EQ(report.lost_steps, 150U);
  EXPECT_TRUE(report.saves.empty());
}

TEST(RunReport, ACorruptCheckpointCostsWorkThatWasSaved) {
  Log log;
  log.start(0).ready(0, 0).save(10, 100).save(10, 200).save(10, 300).preempted(5, 350);
  const RunReport report = log.start(60).restore(0, 150).ready(0, 150).finished(30, 450).report();
  EXPECT_EQ(report.lost_steps, 200U);
  EXPECT_EQ(report.kept_steps, 450U);
  EXPECT_THAT(report.starts[0].times.lost_s, about(5 + 10 + 5 + 1));
}

TEST(RunReport, ARunThatBeginsAnewAfterItsEndLosesNothing) {
  Log log;
  log.start(0).ready(0, 0).save(10, 100).finished(1, 110);
  const RunReport report = log.start(9).ready(0, 0).finished(10, 100).report();
  EXPECT_EQ(report.lost_steps, 0U);
  EXPECT_EQ(report.kept_steps, 210U);
}

TEST(RunReport, OfARunThatWorks) {
  const Log log = Log().start(0).ready(1, 0).save(10, 100);
  const RunReport report = log.report(true, 30);
  expect_whole(report, 45);
  EXPECT_EQ(report.starts[0].ending, Ending::working);
  EXPECT_THAT(report.times.unsaved_s, about(30));
  EXPECT_THAT(report.times.lost_s, about(0));
  EXPECT_THAT(log.report(false, 30).length_s(), about(15)) << "of one that is gone nothing is added";
}

TEST(RunReport, OfAManagerWithoutAHandler) {
  Log log;
  log.start(0).add("save_started", 10, {{"number", 1}, {"reason", {{"kind", "user"}}}});
  log.add("save_finished", 4, {{"number", 1}, {"seconds", 4.0}, {"bytes", 5}, {"reason", {{"kind", "user"}}}});
  const RunReport report = log.report();
  expect_whole(report, 14);
  EXPECT_EQ(report.starts[0].ending, Ending::untold);
  EXPECT_THAT(report.times.kept_s, about(10)) << "without a handler all since the start counts as work";
  EXPECT_THAT(report.times.save_s, about(4));
  EXPECT_EQ(report.kept_steps, 0U) << "nobody told steps";
  EXPECT_FALSE(report.saves[0].step.has_value());
}

TEST(RunReport, AClockThatWasSetBackMakesNoTimeNegative) {
  const RunReport report =
      Log().start(0).ready(1, 0).preempted(10, 10).set_back(3600).start(5).ready(1, 10).finished(4, 20).report();
  EXPECT_TRUE(report.clock_set_back);
  expect_whole(report, 1 + 10 + 5 + 1 + 4);
  EXPECT_THAT(report.times.down_s, about(0));
  EXPECT_FALSE(Log().start(0).ready(1, 0).report().clock_set_back);
}

TEST(RunReport, LinesThatAreMissingOrForeignAreNoTrouble) {
  Log log;
  log.finished(0, 7).start(1).ready(1, 0).save(10, 100).save(10, 200).finished(5, 250);
  auto& events = log.events();
  ASSERT_EQ(events[5]["event"], "save_started");
  events.erase(events.begin() + 5);
  events.push_back({{"event", "save_finished"}, {"monotonic_s", "yesterday"}, {"bytes", -7}, {"reason", 5}});
  events.push_back({{"event", "steps"}, {"monotonic_s", 1e300}, {"run_calls", -1}, {"time", 12}});
  events.push_back({{"event", 5}});
  events.push_back({{"event", "start"}, {"host", 5}, {"time", "never"}});
  events.push_back({{"event", "ready"}});
  const RunReport report = log.report();
  EXPECT_EQ(report.starts.size(), 2U) << "what stands before the first start is the end of a start that was cut off";
  EXPECT_EQ(report.kept_steps, 250U);
  EXPECT_TRUE(std::isfinite(report.length_s()));
}

TEST(RunReport, ARestoreInTheMiddleOfTheWorkCountsNothingTwice) {
  Log log;
  log.start(0).add("save_started", 10, {{"number", 1}}).add("save_finished", 4, {{"number", 1}, {"seconds", 4.0}});
  log.add("restore_started", 5, {{"file", "ckpt-1.h5"}}).save(2, 20);
  const RunReport report = log.report();
  expect_whole(report, 25);
  EXPECT_THAT(report.times.startup_s, about(0));
  EXPECT_THAT(report.times.kept_s, about(15));
  EXPECT_THAT(report.times.restore_s, about(2));
}

TEST(RunReport, WorkThatARestoreThrowsAwayIsLostSavedOrNot) {
  Log log;
  log.start(0).ready(1, 0).save(10, 10).add("step", 10, {{"run_calls", 20}}).restore(0, 10).save(10, 20);
  const RunReport report = log.report();
  EXPECT_THAT(report.times.kept_s, about(20)) << "steps 0 to 10, and 10 to 20 once";
  EXPECT_THAT(report.times.lost_s, about(10));
}

TEST(RunReport, AnEmptyLogHasNoStarts) {
  const RunReport report = Timeline().report({}, {}, kReportNoon);
  EXPECT_TRUE(report.starts.empty());
  EXPECT_EQ(report.length_s(), 0);
}

TEST(RunReport, Json) {
  const Log log = Log().start(0).ready(0, 0).save(10, 100).failed(3, 130);
  const Json json = to_json(log.report(), log.now());
  EXPECT_EQ(json["status"]["state"], "failed");
  EXPECT_EQ(json["lost_steps"], 30);
  EXPECT_EQ(json["starts"][0]["ending"], "failed");
  EXPECT_EQ(json["saves"][0]["step"], 100);
  double sum = 0;
  for (const auto& [name, seconds] : json["times"].items()) {
    sum += seconds.get<double>();
  }
  EXPECT_THAT(sum, about(json["length_s"].get<double>()));
}

Log killed_after_a_local_copy() {
  Log log;
  log.start(0).ready(1, 0).save(10, 100).add("step", 10, {{"run_calls", 200}});
  return log.add("local_copies", 1,
                 {{"count", 7}, {"seconds", 0.25}, {"step", 190}, {"bytes", 1000}, {"partner", false}});
}

TEST(RunReport, WorkThatALocalCopyHasKeptIsNotLost) {
  Log log = killed_after_a_local_copy();
  EXPECT_EQ(log.report().lost_steps, 100U) << "as long as nobody has started it again";
  log.start(30);
  log.add("restore_started", 1, {{"file", "1-0.0.part"}});
  log.add("restore", 1, {{"file", "1-0.0.part"}, {"run_calls", 190}}).ready(0, 190).finished(5, 300);
  const RunReport report = log.report();
  EXPECT_EQ(report.starts.at(1).source, Source::local_copy);
  EXPECT_EQ(report.starts.at(1).saved_by_local, 90U);
  EXPECT_EQ(report.lost_steps, 10U);
  EXPECT_EQ(report.kept_steps, 300U);
  ASSERT_EQ(report.local_copies.size(), 1U);
  EXPECT_EQ(report.local_copies.front().count, 7U);
  const nlohmann::json json = to_json(report, log.now());
  EXPECT_EQ(json.at("starts").at(1).at("restored"), "local_copy");
  EXPECT_EQ(json.at("local_copies").at(0).at("seconds"), 0.25);
}

TEST(RunReport, AStartThatDiesBeforeItsRestoreTakesNothingFromTheLocalCopy) {
  Log log = killed_after_a_local_copy();
  log.start(30).start(30);
  log.add("drain_started", 1, {{"number", 190}, {"flushed", true}});
  log.restore(1, 190).ready(0, 190).finished(5, 300);
  const RunReport report = log.report();
  EXPECT_EQ(report.starts.at(1).source, Source::nothing);
  EXPECT_EQ(report.starts.at(2).source, Source::flushed);
  EXPECT_EQ(report.lost_steps, 10U);
}

TEST(RunReport, ALocalCopyTellsHowFarAKilledStartHadComeAtLeast) {
  Log log = killed_after_a_local_copy();
  log.start(30).restore(1, 230).ready(0, 230).finished(5, 300);
  const RunReport report = log.report();
  EXPECT_EQ(report.starts.at(1).saved_by_local, 130U) << "the start had told of 200 last";
  EXPECT_EQ(report.lost_steps, 0U);
  EXPECT_EQ(report.kept_steps, 300U);
}

TEST(RunReport, WithoutALocalCopyTheWorkStaysLost) {
  Log log = killed_after_a_local_copy();
  log.start(30).restore(1, 100).ready(0, 100).finished(5, 300);
  const RunReport report = log.report();
  EXPECT_EQ(report.starts.at(1).source, Source::checkpoint);
  EXPECT_EQ(report.starts.at(1).saved_by_local, 0U);
  EXPECT_EQ(report.lost_steps, 100U);
}

}  // namespace
}  // namespace reprieve::tool
