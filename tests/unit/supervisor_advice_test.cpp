// SPDX-License-Identifier: BSD-3-Clause
// How often to save, and what an event log tells about past runs.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "advise.hpp"
#include "support/logged_events.hpp"
#include "timeline.hpp"

namespace reprieve::supervisor {
namespace {

using Json = nlohmann::json;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr double kMinute = 60;
constexpr double kHour = 3600;

// The interval.

TEST(CheckpointInterval, YoungAndDalyByHandAndAsPublished) {
  EXPECT_DOUBLE_EQ(handler::young_interval_s(2, 100), 20);
  EXPECT_DOUBLE_EQ(handler::young_interval_s(5 * kMinute, 24 * kHour), 120 * kMinute);
  // 20 (1 + 0.1 / 3 + 0.01 / 9) - 2
  EXPECT_NEAR(daly_interval_s(2, 100), 18.688889, 1e-6);
  // The captions of figures 3, 4 and 5 of Daly 2006: a save of 5 min, failures every 24 h, 6 h and 15 min.
  EXPECT_NEAR(daly_interval_s(5 * kMinute, 24 * kHour) / kMinute, 117, 0.5);
  EXPECT_NEAR(daly_interval_s(5 * kMinute, 6 * kHour) / kMinute, 57, 0.5);
  EXPECT_NEAR(daly_interval_s(5 * kMinute, 15 * kMinute) / kMinute, 9.1, 0.05);
}

TEST(CheckpointInterval, SavesLongerThanTheTimeBetweenFailures) {
  EXPECT_DOUBLE_EQ(daly_interval_s(200, 100), 100);
  EXPECT_DOUBLE_EQ(daly_interval_s(1000, 100), 100);
  EXPECT_GT(daly_interval_s(199, 100), 0);
}

TEST(CheckpointInterval, DalyLosesLeast) {
  for (const double mtbf : {15 * kMinute, 6 * kHour, 24 * kHour}) {
    const double save = 5 * kMinute;
    const double best = daly_interval_s(save, mtbf);
    const double lost = lost_fraction(best, save, 10 * kMinute, mtbf);
    EXPECT_LT(lost, lost_fraction(best * 0.7, save, 10 * kMinute, mtbf));
    EXPECT_LT(lost, lost_fraction(best * 1.4, save, 10 * kMinute, mtbf));
    EXPECT_LE(lost, lost_fraction(handler::young_interval_s(save, mtbf), save, 10 * kMinute, mtbf));
  }
}

TEST(CheckpointInterval, LostFractionByHand) {
  // Failures are rare: one save of 1 s for every 9 s of work.
  EXPECT_NEAR(lost_fraction(9, 1, 0, 1e9), 0.1, 1e-6);
  // Tw / Ts = 100 e^0.1 (e^0.2 - 1) / 18 = 1.3592...
  EXPECT_NEAR(lost_fraction(18, 2, 10, 100), 1 - 18 / (100 * std::exp(0.1) * (std::exp(0.2) - 1)), 1e-12);
  EXPECT_NEAR(lost_fraction(18, 2, 10, 100), 0.26436, 1e-4);
}

TEST(CheckpointInterval, RuleOfThree) { EXPECT_NEAR(shortest_mtbf_s(300), 100, 0.2); }

// The event log.

Json at(double time, const char* name, Json fields = Json::object()) {
  fields["event"] = name;
  fields["monotonic_s"] = time;
  return fields;
}

RunHistory read_history(const std::vector<Json>& events) { return tool::Timeline(test::log_of(events)).history(); }

Json save_finished(double time, int run_calls, double seconds, const char* kind) {
  return at(time, "save_finished",
            {{"run_calls", run_calls}, {"seconds", seconds}, {"bytes", 1000}, {"reason", {{"kind", kind}}}});
}

/// Works from step @p first for 10 steps of 1 s, saves for 2 s, works for 5 more, saves for 4 s.
std::vector<Json> work(double t, int first) {
  return {at(t, "start"),
          at(t + 1, "ready", {{"run_calls", first}}),
          at(t + 11, "steps", {{"run_calls", first + 10}, {"longest_step_s", 1.5}}),
          at(t + 11, "save_started", {{"run_calls", first + 10}}),
          save_finished(t + 13, first + 10, 2, "periodic"),
          at(t + 18, "save_started", {{"run_calls", first + 15}}),
          save_finished(t + 22, first + 15, 4, "periodic")};
}

TEST(RunHistory, StepsContinueWhileASaveIsWrittenInTheBackground) {
  Json save = save_finished(1014, 10, 3, "periodic");
  save["blocked_seconds"] = 0.5;
  const RunHistory history =
      read_history({at(1000, "start"), at(1000, "ready", {{"run_calls", 0}}),
                    at(1010, "save_started", {{"run_calls", 10}}), save, at(1020.5, "finished", {{"run_calls", 20}})});
  EXPECT_THAT(history.saves_s, ElementsAre(3));
  EXPECT_THAT(history.blocked_s, ElementsAre(0.5));
  EXPECT_EQ(history.steps, 20U);
  EXPECT_DOUBLE_EQ(history.stepping_s, 20);
}

TEST(RunHistory, OneRunThatFinished) {
  auto events = work(1000, 0);
  events.push_back(at(1032, "finished", {{"run_calls", 25}}));
  const RunHistory history = read_history(events);
  EXPECT_EQ(history.runs, 1);
  EXPECT_EQ(history.finished, 1);
  EXPECT_EQ(history.failed, 0);
  EXPECT_DOUBLE_EQ(history.observed_s, 32);
  EXPECT_THAT(history.saves_s, ElementsAre(2, 4));
  EXPECT_EQ(history.steps, 25U);
  EXPECT_DOUBLE_EQ(history.stepping_s, 25) << "the time of saves is none of steps";
  EXPECT_DOUBLE_EQ(history.longest_step_s, 1.5);
  EXPECT_THAT(history.intervals_s, ElementsAre(DoubleNear(5, 1e-9)));
  EXPECT_EQ(history.state_bytes, 1000U);
}

TEST(RunHistory, RunThatEndedWithoutAWordIsAFailureOnceTheNextOneStarts) {
  auto events = work(1000, 0);
  EXPECT_EQ(read_history(events).failed, 0) << "it may still be working";
  // The next run, on another machine whose clock began again.
  std::ranges::move(work(5, 15), std::back_inserter(events));
  events.push_back(at(30, "restore", {{"seconds", 0.5}}));
  const RunHistory history = read_history(events);
  EXPECT_EQ(history.runs, 2);
  EXPECT_EQ(history.failed, 1);
  EXPECT_DOUBLE_EQ(history.observed_s, 22 + 25);
  EXPECT_EQ(history.steps, 30U);
  EXPECT_THAT(history.restores_s, ElementsAre(0.5));
}

TEST(RunHistory, NoticeIsNoFailure) {
  auto events = work(1000, 0);
  events.push_back(at(1030, "agreement", {{"run_calls", 20}, {"seconds_from_notice", 0.7}}));
  events.push_back(at(1033, "exit", {{"run_calls", 20}, {"seconds_from_notice", 3.5}}));
  std::ranges::move(work(2000, 20), std::back_inserter(events));
  const RunHistory history = read_history(events);
  EXPECT_EQ(history.preempted, 1);
  EXPECT_EQ(history.failed, 0);
  EXPECT_THAT(history.waits_s, ElementsAre(0.7));
  EXPECT_THAT(history.notices_s, ElementsAre(3.5));
}

TEST(RunHistory, RunThatWentOnAfterItsExitFunctionIsJudgedByItsEnd) {
  auto events = work(1000, 0);
  events.push_back(at(1033, "exit", {{"run_calls", 20}, {"seconds_from_notice", 3.5}}));
  events.push_back(at(1034, "went_on", {{"run_calls", 20}}));
  events.push_back(at(1040, "finished", {{"run_calls", 26}}));
  const RunHistory history = read_history(events);
  EXPECT_EQ(history.preempted, 0);
  EXPECT_EQ(history.finished, 1);
  EXPECT_EQ(history.steps, 15U + 6U);
}

TEST(RunHistory, StartThatNeverCameToAStepCountsForNothing) {
  std::vector<Json> events{at(10, "start"), at(11, "restore_failed")};
  std::ranges::move(work(1000, 0), std::back_inserter(events));
  const RunHistory history = read_history(events);
  EXPECT_EQ(history.runs, 1);
  EXPECT_EQ(history.failed, 0);
}

TEST(RunHistory, OfSeveralDirectories) {
  RunHistory history = read_history(work(1000, 0));
  history.add(read_history(work(50, 0)));
  EXPECT_EQ(history.runs, 2);
  EXPECT_EQ(history.steps, 30U);
  EXPECT_THAT(history.saves_s, ElementsAre(2, 4, 2, 4));
  EXPECT_THAT(history.first_saves_s, ElementsAre(2, 2));
  EXPECT_DOUBLE_EQ(history.observed_s, 44);
}

}  // namespace
}  // namespace reprieve::supervisor
