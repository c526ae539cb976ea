// SPDX-License-Identifier: BSD-3-Clause
// What `reprieve report` makes of event logs: starts, and where the time went.

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "core/events.hpp"
#include "support/logged_events.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
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
  for (std::size_t kind = 0; kind < report.times.size(); ++kind) {
    EXPECT_GE(report.times[kind], -1e-9) << kTimeKinds[kind];
  }
}

TEST(RunReport, OfARunThatFinished) {
  const RunReport report = Log().start(0).ready(3, 0).save(10, 100).finished(5, 150).report();
  expect_whole(report, 22);
  EXPECT_THAT(report.times[kStartup], about(3));
  EXPECT_THAT(report.times[kKept], about(15));
  EXPECT_THAT(report.times[kSave], about(4));
  EXPECT_EQ(report.kept_steps, 150U);
  EXPECT_EQ(report.lost_steps, 0U);
  ASSERT_EQ(report.starts.size(), 1U);
  EXPECT_EQ(report.starts[0].ending, RunState::finished);
  EXPECT_EQ(report.starts[0].event.host, "node17");
  EXPECT_EQ(report.starts[0].step_to, 150U);
  EXPECT_EQ(report.advice.history.finished, 1) << "the advice is that of the same runs";
}

TEST(RunReport, WhatIsWrittenInTheBackgroundCostsOnlyWhatItStops) {
  const RunReport report = Log().start(0).ready(1, 0).save(10, 100, 0.5).finished(6, 195).report();
  expect_whole(report, 21);
  EXPECT_THAT(report.times[kSave], about(0.5));
  EXPECT_THAT(report.times[kKept], about(19.5));
}

TEST(RunReport, ANoticeCostsNoWork) {
  const RunReport report =
      Log().start(0).ready(1, 0).preempted(20, 40).start(600).restore(1, 40).ready(1, 40).finished(10, 60).report();
  expect_whole(report, 1 + 20 + 4 + 1 + 600 + 4 + 10);
  EXPECT_THAT(report.times[kDown], about(600));
  EXPECT_THAT(report.times[kRestore], about(2));
  EXPECT_THAT(report.times[kLost], about(0));
  EXPECT_EQ(report.kept_steps, 60U);
  EXPECT_EQ(report.starts[0].ending, RunState::saved);
  EXPECT_EQ(report.starts[0].why, "signal SIGTERM");
  ASSERT_EQ(report.notices.size(), 1U);
  EXPECT_EQ(report.notices[0].event.rank, 2);
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
  EXPECT_EQ(report.starts[0].ending, RunState::gone);
  EXPECT_EQ(report.starts[0].why, "while it worked");
  EXPECT_THAT(report.times[kLost], about(6));
  EXPECT_EQ(report.lost_steps, 60U);
  EXPECT_EQ(report.kept_steps, 250U);
  // It saved every 10 s, and had worked for 6 s since: after 4 s more it would have told something.
  EXPECT_THAT(report.times[kUnknown], about(4));
  EXPECT_THAT(report.times[kDown], about(96));
  EXPECT_EQ(report.starts[0].perhaps_lost_steps, 40U) << "ten steps a second";
}

TEST(RunReport, ARunThatTellsItsStepsCannotHaveWorkedLongWithoutAWord) {
  Log log;
  log.start(0).ready(0, 0).add("step", 5, {{"run_calls", 50}, {"step_s", 0.1}});
  log.add("step", 995, {{"run_calls", 9990}, {"step_s", 0.1}});
  const RunReport report = log.start(5000).ready(0, 0).finished(5, 50).report();
  EXPECT_THAT(report.times[kLost], about(1000));
  EXPECT_THAT(report.times[kUnknown], about(60.1)) << "a word every minute, and a step";
  EXPECT_THAT(report.times[kDown], about(4939.9));
}

TEST(RunReport, OfARunThatReportsNothingAllTimeAfterItsLastWordIsUnknown) {
  const RunReport report = Log().start(0).ready(1, 0).start(100).ready(1, 0).finished(5, 50).report();
  expect_whole(report, 107);
  EXPECT_THAT(report.times[kUnknown], about(100));
  EXPECT_THAT(report.times[kDown], about(0));
  EXPECT_FALSE(report.starts[0].perhaps_lost_steps.has_value()) << "no pace is known";
  const RunReport empty = Timeline().report({}, {}, kReportNoon);
  EXPECT_TRUE(empty.starts.empty());
  EXPECT_EQ(empty.length_s(), 0);
}

TEST(RunReport, KilledBeforeItsFirstStepItLostNoWork) {
  const RunReport report = Log().start(0).start(50).ready(1, 0).finished(5, 50).report();
  EXPECT_EQ(report.starts[0].why, "before its first step");
  EXPECT_THAT(report.times[kDown], about(50));
  EXPECT_THAT(report.times[kUnknown], about(0));
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
  EXPECT_EQ(report.starts[0].ending, RunState::failed);
  EXPECT_EQ(report.starts[0].why, "rank 3: no more data");
  EXPECT_THAT(report.times[kLost], about(3));
  EXPECT_EQ(report.lost_steps, 30U);
  EXPECT_THAT(report.times[kUnknown], about(0)) << "an error says when the end was";
  EXPECT_THAT(report.times[kDown], about(20));
}

TEST(RunReport, ASaveThatFailedKeepsNothing) {
  Log log;
  log.start(0).ready(0, 0).add("save_started", 10, {{"number", 100}, {"run_calls", 100}});
  log.add("save_failed", 2, {{"number", 100}, {"message", "no space"}}).add("save_skipped", 0, {{"number", 150}});
  const RunReport report = log.failed(5, 150).report();
  EXPECT_EQ(report.failed_saves, 1U);
  EXPECT_EQ(report.skipped_saves, 1U);
  EXPECT_THAT(report.times[kSave], about(2));
  EXPECT_THAT(report.times[kLost], about(15));
  EXPECT_EQ(report.lost_steps, 150U);
  EXPECT_TRUE(report.saves.empty());
}

/// Nothing else says how the run ended.
TEST(RunReport, ASaveThatFailedForANoticeIsTheEnd) {
  Log log;
  log.start(0).ready(0, 0).notice(10, 100).add("save_started", 0, {{"number", 100}, {"run_calls", 100}});
  log.add("save_failed", 2, {{"error", "no_space"}, {"message", "cannot write ckpt-100.h5"}});
  const RunReport report = log.report();
  EXPECT_EQ(report.starts[0].ending, RunState::failed);
  EXPECT_EQ(report.starts[0].why, "checkpoint 100 was not saved: cannot write ckpt-100.h5");
  EXPECT_EQ(report.status.state, RunState::failed);
  EXPECT_EQ(report.status.message, report.starts[0].why);
  EXPECT_EQ(log.report(true).status.state, RunState::leaving);
  EXPECT_EQ(log.report(true).status.message, report.starts[0].why);
  Log caught = log;
  const RunReport later = caught.failed(0, 100, "an exception ended it").report();
  EXPECT_EQ(later.status.message, report.starts[0].why + "; then an exception ended it");
  EXPECT_EQ(later.starts[0].why, later.status.message);
  log.add("step", 60, {{"run_calls", 200}});
  EXPECT_EQ(log.report().starts[0].ending, RunState::gone) << "it made steps since";
}

/// Its failure is told while the run works on, and until a save is made; it does not say how the run ended.
TEST(RunReport, APeriodicSaveThatFailedIsNotTheEnd) {
  Log log;
  log.start(0).ready(0, 0).add("save_started", 10, {{"number", 100}, {"run_calls", 100}});
  log.add("save_failed", 2, {{"number", 100}, {"error", "no_space"}, {"message", "the disk is full"}});
  log.add("save_put_off", 0, {{"failures", 2}, {"run_calls", 100}});
  const RunReport working = log.report(true);
  EXPECT_EQ(working.status.state, RunState::running);
  EXPECT_EQ(working.status.failed_saves, 2U);
  EXPECT_EQ(working.status.message,
            "checkpoint 100 was not saved: the disk is full; 2 periodic saves in a row failed, and the run continues");
  EXPECT_EQ(working.failed_saves, 1U);
  EXPECT_EQ(log.report().starts[0].ending, RunState::gone);
  EXPECT_EQ(log.report().status.state, RunState::gone);
  const RunReport later = log.save(10, 200).report(true);
  EXPECT_EQ(later.status.failed_saves, 0U);
  EXPECT_EQ(later.status.message, "");
  EXPECT_EQ(later.failed_saves, 1U);
}

TEST(RunReport, ACorruptCheckpointCostsWorkThatWasSaved) {
  Log log;
  log.start(0).ready(0, 0).save(10, 100).save(10, 200).save(10, 300).preempted(5, 350);
  const RunReport report = log.start(60).restore(0, 150).ready(0, 150).finished(30, 450).report();
  EXPECT_EQ(report.lost_steps, 200U);
  EXPECT_EQ(report.kept_steps, 450U);
  EXPECT_THAT(report.starts[0].times[kLost], about(5 + 10 + 5 + 1));
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
  EXPECT_EQ(report.starts[0].ending, RunState::running);
  EXPECT_THAT(report.times[kUnsaved], about(30));
  EXPECT_THAT(report.times[kLost], about(0));
  EXPECT_THAT(log.report(false, 30).length_s(), about(15)) << "of one that is gone nothing is added";
}

TEST(RunReport, AClockThatWasSetBackMakesNoTimeNegative) {
  const RunReport report =
      Log().start(0).ready(1, 0).preempted(10, 10).set_back(3600).start(5).ready(1, 10).finished(4, 20).report();
  EXPECT_TRUE(report.clock_set_back);
  expect_whole(report, 1 + 10 + 5 + 1 + 4);
  EXPECT_THAT(report.times[kDown], about(0));
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
  EXPECT_THAT(report.times[kStartup], about(0));
  EXPECT_THAT(report.times[kKept], about(15));
  EXPECT_THAT(report.times[kRestore], about(2));
}

TEST(RunReport, WorkThatARestoreThrowsAwayIsLostSavedOrNot) {
  Log log;
  log.start(0).ready(1, 0).save(10, 10).add("step", 10, {{"run_calls", 20}}).restore(0, 10).save(10, 20);
  const RunReport report = log.report();
  EXPECT_THAT(report.times[kKept], about(20)) << "steps 0 to 10, and 10 to 20 once";
  EXPECT_THAT(report.times[kLost], about(10));
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

// The numbers of `reprieve report` for monitoring.

LoggedEvent event_at(const char* name, int at_s, LoggedEvent fields = LoggedEvent::object()) {
  fields["event"] = name;
  fields["time"] = core::event_time(kReportNoon + std::chrono::seconds(at_s));
  fields["monotonic_s"] = at_s;
  return fields;
}

RunReport run_of_metrics(const std::string& directory, bool lives) {
  std::vector<LoggedEvent> events{
      event_at("start", 0), event_at("ready", 2, {{"run_calls", 0}, {"total_steps", 500}}),
      event_at("save_started", 10, {{"number", 80}, {"run_calls", 80}}),
      event_at("save_finished", 13, {{"number", 80}, {"run_calls", 80}, {"seconds", 3}, {"bytes", 4096}}),
      event_at("steps", 15, {{"run_calls", 100}})};
  if (!lives) {
    events.push_back(event_at("error", 15, {{"run_calls", 100}}));
  }
  const Timeline timeline(test::log_of(events));
  return timeline.report(timeline.status(directory, lives).value(), {}, kReportNoon + 20s);
}

/// The texts were read with a parser that takes nothing but the formats: text 0.0.4 with the stricter rules of
/// `promtool check metrics`, and OpenMetrics 1.0. Who changes them reads them so again.
TEST(ReportMetrics, AreTheTextsThatWereRecorded) {
  const std::vector<RunReport> reports{run_of_metrics("a \"b\"\\c\nd{,}\xff", true), run_of_metrics("other", false)};
  for (const auto& [format, name] :
       {std::pair{MetricsFormat::prometheus, "prometheus"}, {MetricsFormat::openmetrics, "openmetrics"}}) {
    const auto file = std::filesystem::path(REPRIEVE_SOURCE_DIR) / ("tests/unit/recorded/metrics." + std::string(name));
    const std::string text = metrics_text(reports, format, kReportNoon + 20s);
    EXPECT_EQ(text, test::read_text(file));
    EXPECT_TRUE(text.starts_with(kMetricsMarker));
  }
}

// The page of `reprieve report`: it holds the JSON, is harmless whatever a log says, and its script draws from what is
// there. Where Node.js is installed, the script runs.

using ::testing::AllOf;
using ::testing::Not;

Json report_on(const std::vector<LoggedEvent>& events, const std::string& directory = "run") {
  const Timeline timeline(test::log_of(events));
  return to_json(timeline.report(timeline.status(directory, false).value_or(RunStatus{}), {}, kReportNoon),
                 kReportNoon);
}

/// One that was preempted, killed, and failed, as often as wanted; everything it says is @p words.
std::vector<LoggedEvent> eventful_run(const std::string& words, int times = 1) {
  std::vector<LoggedEvent> events;
  int at_s = 0;
  for (int i = 0; i < times; ++i) {
    const int step = i * 100;
    const int begin = i % 3 == 2 ? step - 10 : step;  // the one before has failed after its save
    const auto add = [&](const char* name, int after_s, const LoggedEvent& fields) {
      at_s += after_s;
      events.push_back(event_at(name, at_s, fields));
    };
    add("start", 60, {{"host", words}, {"pid", 1}, {"world_size", 4}, {"directory", words}});
    add("restore_started", 1, {{"file", words}});
    add("restore", 1, {{"file", words}, {"run_calls", begin}});
    add("ready", 1, {{"run_calls", begin}});
    add("save_started", 100, {{"number", step + 90}, {"run_calls", step + 90}});
    add("save_finished", 2, {{"number", step + 90}, {"run_calls", step + 90}, {"seconds", 2}, {"bytes", 1 << 20}});
    if (i % 3 == 0) {
      add("notice", 5, {{"source", words}, {"message", words}, {"rank", 0}, {"host", words}});
      add("exit", 1, {{"run_calls", step + 100}});
    } else if (i % 3 == 1) {
      add("error", 5, {{"message", words}, {"run_calls", step + 100}});
    }
  }
  return events;
}

/// What is wrong with the tags and entities of a page; nothing if each tag is closed in the right order.
std::optional<std::string> fault_of_markup(const std::string& page) {
  static const std::regex piece(
      R"(<!DOCTYPE html>|<!--.*?-->|<(/?)([A-Za-z0-9]+)((?:\s+[-A-Za-z0-9:]+="[^"<]*")*)\s*(/?)>)");
  static const std::regex entity("&(?!(?:amp|lt|gt|quot|#39);)");
  std::vector<std::string> open;
  std::size_t end = 0;
  for (auto tag = std::sregex_iterator(page.begin(), page.end(), piece); tag != std::sregex_iterator(); ++tag) {
    const std::string between = page.substr(end, static_cast<std::size_t>(tag->position()) - end);
    if (between.find('<') != std::string::npos || std::regex_search(between, entity)) {
      return "text that is no text: " + between;
    }
    end = static_cast<std::size_t>(tag->position() + tag->length());
    if (!(*tag)[2].matched || (*tag)[4].length() > 0) {
      continue;
    }
    if ((*tag)[1].length() == 0) {
      open.push_back((*tag)[2]);
    } else if (open.empty() || open.back() != (*tag)[2]) {
      return "closed in the wrong order: " + (*tag)[2].str();
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? std::nullopt : std::optional("never closed: " + open.back());
}

TEST(ReportPage, TheCheckOfThePageSeesFaults) {
  EXPECT_EQ(fault_of_markup("<a b=\"c\"><d/>e &amp; f</a>"), std::nullopt);
  for (const char* const bad : {"<a><b></a></b>", "<a>", "<p>a & b</p>", "<p>1 < 2</p>"}) {
    EXPECT_TRUE(fault_of_markup(bad).has_value()) << bad;
  }
}

/// What stands between two pieces of text.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const auto from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

std::string page_of(const Json& reports) { return report_page(reports, kReportNoon); }

std::string script_of(const std::string& page) { return between(page, "//<![CDATA[", "//]]>"); }

Json data_in(const std::string& page) { return Json::parse(between(page, "id=\"data\">", "</script>")); }

TEST(ReportPage, HoldsTheJsonAndStandsAlone) {
  const Json reports = Json::array({report_on(eventful_run("words", 4)), report_on(eventful_run("other"), "b")});
  const std::string page = page_of(reports);
  EXPECT_EQ(data_in(page), reports);
  EXPECT_THAT(page, ::testing::StartsWith(std::string(kPageMarker)));
  EXPECT_THAT(page, AllOf(HasSubstr("charset=\"utf-8\""), HasSubstr("prefers-color-scheme:dark"),
                          HasSubstr("@media print"), HasSubstr("default-src 'none'"), Not(HasSubstr("@MADE@"))));
  // Nothing is fetched from anywhere.
  for (const char* const foreign : {"http:", "https:", "src=\"", "@import", "<link", "fetch(", "XMLHttp", "import("}) {
    EXPECT_THAT(page, Not(HasSubstr(foreign)));
  }
  static const std::regex url(R"(url\((?!#))");
  EXPECT_FALSE(std::regex_search(page, url));
}

TEST(ReportPage, WhatALogSaysStaysData) {
  const std::string hostile = "</script><script>alert('1')</script> & @DATA@ \x1b[31m \x01 \xff";
  const Json reports = Json::array({report_on(eventful_run(hostile, 3), "a/<b>&\"c'")});
  const std::string page = page_of(reports);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("alert('1')</")), Not(HasSubstr("\x1b")), Not(HasSubstr("\x01"))));
  EXPECT_EQ(data_in(page)[0]["status"]["directory"], "a/<b>&\"c'");
  std::string rest = page;
  const std::string script = "//<![CDATA[" + script_of(page) + "//]]>";
  EXPECT_EQ(fault_of_markup(rest.erase(rest.find(script), script.size())), std::nullopt);
}

/// The keys of an object, or of the first objects of a list.
void collect_keys(const Json& json, std::set<std::string>& keys) {
  for (const Json& one : json.is_array() ? json : Json::array({json})) {
    for (auto field = one.begin(); one.is_object() && field != one.end(); ++field) {
      keys.insert(field.key());
    }
  }
}

/// What the script calls the objects of the JSON, and what it may ask each for.
std::map<std::string, std::set<std::string>> keys_by_name(const Json& reports) {
  std::map<std::string, std::set<std::string>> keys;
  for (const Json& report : reports) {
    collect_keys(report, keys["run"]);
    for (const auto& [name, list] : {std::pair{"start", "starts"},
                                     {"save", "saves"},
                                     {"notice", "notices"},
                                     {"copy", "local_copies"},
                                     {"span", "spans"},
                                     {"point", "points"},
                                     {"times", "times"},
                                     {"status", "status"}}) {
      collect_keys(report.at(list), keys[name]);
    }
    collect_keys(report.at("status").at("checkpoint"), keys["checkpoint"]);
    collect_keys(report.at("status").at("local_copy"), keys["local"]);
  }
  return keys;
}

std::set<std::string> unknown_keys(const std::string& script, const Json& reports) {
  static const std::regex access(R"(\b(run|start|save|notice|copy|span|point|times|status|checkpoint|local)\.(\w+))");
  const auto keys = keys_by_name(reports);
  std::set<std::string> unknown;
  for (auto found = std::sregex_iterator(script.begin(), script.end(), access); found != std::sregex_iterator();
       ++found) {
    if (!keys.at((*found)[1]).contains((*found)[2])) {
      unknown.insert((*found)[0]);
    }
  }
  return unknown;
}

/// And of one with a node-local copy that no checkpoint has overtaken.
Json reports_of_recorded_runs() {
  Json reports = Json::array({report_on({event_at("start", 0), event_at("local_copies", 9, {{"step", 5}})})});
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(REPRIEVE_SOURCE_DIR) / "tests/unit/recorded")) {
    if (entry.path().extension() == ".json") {
      std::ifstream stream(entry.path());
      const Json answers = Json::parse(stream);
      for (const Json& report : answers.at("report")) {
        reports.push_back(report);
      }
    }
  }
  return reports;
}

TEST(ReportPage, ItsScriptNamesOnlyKeysOfTheJson) {
  const Json reports = reports_of_recorded_runs();
  ASSERT_FALSE(reports.empty());
  EXPECT_THAT(unknown_keys(script_of(page_of(reports)), reports), ::testing::IsEmpty());
  EXPECT_THAT(unknown_keys("run.starts, run.stops", reports), ::testing::ElementsAre("run.stops"));
  const auto page = page_of(reports);
  for (const auto& [kind, seconds] : reports[0].at("times").items()) {
    EXPECT_THAT(page, HasSubstr("['" + kind.substr(0, kind.size() - 2) + "', ")) << "a kind of time";
  }
}

/// What the script draws; nothing where there is no Node.js.
std::optional<std::string> drawn(const Json& reports) {
  const test::TemporaryDirectory directory;
  const std::string page = page_of(reports);
  std::ofstream(directory / "page.js") << "const elements = {data: {textContent: " << Json(data_in(page).dump()).dump()
                                       << "}, page: {}};\n"
                                       << "const document = {getElementById: (id) => elements[id]};\n"
                                       << script_of(page) << "process.stdout.write(elements.page.innerHTML);\n";
  if (std::system("command -v node > /dev/null") != 0) {
    return std::nullopt;
  }
  test::Process node({{"node", directory / "page.js"}});
  EXPECT_EQ(node.wait(std::chrono::minutes(1)), 0) << node.err();
  return node.out();
}

#define REPRIEVE_DRAWN(page, reports)                                    \
  const auto drawn_or_not = drawn(reports);                              \
  if (!drawn_or_not) {                                                   \
    GTEST_SKIP() << "the script needs Node.js to run without a browser"; \
  }                                                                      \
  const std::string& page = *drawn_or_not

TEST(ReportPage, TellsWhatBecameOfARun) {
  REPRIEVE_DRAWN(page, Json::array({report_on(eventful_run("node17", 3))}));
  EXPECT_EQ(fault_of_markup(page), std::nullopt);
  EXPECT_THAT(
      page, AllOf(HasSubstr("start 1"), HasSubstr("start 3"), HasSubstr("termination notice"), HasSubstr("Lost steps"),
                  HasSubstr("90th percentile"), HasSubstr("Daly 2006"), HasSubstr("2026-03-01 12:01:00 UTC")));
  EXPECT_THAT(page, HasSubstr("<strong>Start 2</strong> on node17 failed (node17): 5 s of work was lost, 10 steps"));
  EXPECT_THAT(page, HasSubstr("<strong>Start 3</strong> on node17 was killed"));
  EXPECT_THAT(page, AllOf(HasSubstr("; in "), Not(HasSubstr("Nothing had been saved"))));
}

TEST(ReportPage, TellsWhoNeverSavedToDoSo) {
  REPRIEVE_DRAWN(
      page, Json::array({report_on({event_at("start", 0), event_at("ready", 1, {{"run_calls", 0}}),
                                    event_at("error", 9001, {{"run_calls", 500}, {"message", "a rank failed"}})})}));
  EXPECT_THAT(page, AllOf(HasSubstr("failed (a rank failed): 2 h 30 min of work was lost, 500 steps"),
                          HasSubstr("Nothing had been saved until then")));
}

TEST(ReportPage, WhatALogSaysStaysText) {
  const std::string hostile = "</td><script>alert('1')</script>\" onload=\"x\" & \x1b[31m \x01";
  REPRIEVE_DRAWN(page, Json::array({report_on(eventful_run(hostile, 3), "a/<b>&\"c'")}));
  EXPECT_EQ(fault_of_markup(page), std::nullopt);
  EXPECT_THAT(page, AllOf(HasSubstr("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"),
                          HasSubstr("a/&lt;b&gt;&amp;&quot;c&#39;"), Not(HasSubstr("<script")),
                          Not(HasSubstr("onload=\"x")), Not(HasSubstr("\x1b")), Not(HasSubstr("\x01"))));
}

TEST(ReportPage, RunsOfWhichLittleIsKnownAreDrawnToo) {
  Json reports = reports_of_recorded_runs();
  for (const std::vector<LoggedEvent>& events : std::vector<std::vector<LoggedEvent>>{
           {event_at("start", 0)},
           {event_at("start", 0), event_at("ready", 0, {{"run_calls", 0}})},
           {event_at("start", 0), event_at("save_finished", 5, {{"number", 1}})},
           {{{"event", "start"}}, {{"event", "notice"}}, {{"event", "exit"}}},
           {{{"event", "start"}, {"monotonic_s", 1}}, {{"event", "ready"}, {"monotonic_s", 1e8}, {"run_calls", ~0ULL}}},
       }) {
    reports.push_back(report_on(events));
  }
  REPRIEVE_DRAWN(page, reports);
  EXPECT_EQ(fault_of_markup(page), std::nullopt);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("NaN")), Not(HasSubstr("Infinity")), Not(HasSubstr("undefined")),
                          HasSubstr("id=\"run-" + std::to_string(reports.size()) + "\"")));
}

TEST(ReportPage, WhatIsDrawnOfALongLogIsBounded) {
  REPRIEVE_DRAWN(once, Json::array({report_on(eventful_run("x", 1500))}));
  const std::string twice = drawn(Json::array({report_on(eventful_run("x", 3000))})).value();
  EXPECT_LT(static_cast<double>(twice.size()), 1.3 * static_cast<double>(once.size()));
}

}  // namespace
}  // namespace reprieve::tool
