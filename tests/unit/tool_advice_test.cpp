// SPDX-License-Identifier: BSD-3-Clause
// What `reprieve advise` makes of measured times.

#include <gmock/gmock.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "advise.hpp"
#include "core/events.hpp"
#include "handler/save_policy.hpp"
#include "support/json_page.hpp"
#include "support/process.hpp"
#include "timeline.hpp"

namespace reprieve::tool {
namespace {

using supervisor::RunHistory;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// An hour of steps of 0.5 s, with saves of 2 s.
RunHistory history() {
  RunHistory history;
  history.runs = 2;
  history.finished = 1;
  history.failed = 1;
  history.observed_s = 3600;
  history.saves_s = history.blocked_s = std::vector<double>{2, 2, 2, 2};
  history.steps = 7000;
  history.stepping_s = 3500;
  history.longest_step_s = 1;
  return history;
}

std::string text_of(const Advice& advice) {
  std::ostringstream out;
  print_text(out, advice);
  return out.str();
}

TEST(Advice, IntervalIsThatOfDaly) {
  const Advice advice = advise(history(), {.mtbf_s = 6 * 3600.0, .grace_s = {}, .time_limit_s = {}});
  ASSERT_TRUE(advice.interval);
  EXPECT_EQ(advice.interval->source, MtbfSource::given);
  EXPECT_DOUBLE_EQ(advice.interval->daly_s, supervisor::daly_interval_s(2, 6 * 3600));
  EXPECT_EQ(advice.interval->steps, std::round(advice.interval->daly_s / 0.5));
  EXPECT_TRUE(advice.missing.empty());
}

TEST(Advice, MeasuredTimeBetweenFailures) {
  EXPECT_EQ(advise(history(), {}).interval->source, MtbfSource::measured);
  EXPECT_DOUBLE_EQ(advise(history(), {}).interval->mtbf_s, 3600);
  RunHistory quiet = history();
  quiet.failed = 0;
  const Advice bound = advise(quiet, {});
  EXPECT_EQ(bound.interval->source, MtbfSource::at_least);
  EXPECT_NEAR(bound.interval->mtbf_s, 1200, 3);
  EXPECT_THAT(bound.missing, Contains(HasSubstr("--mtbf")));
}

TEST(Advice, LocalCopiesHaveAnIntervalOfTheirOwn) {
  constexpr double kMonth = 30 * 86400.0;
  RunHistory with_copies = history();
  with_copies.local_copies_s = {0.1, 0.3};
  with_copies.state_bytes = 1000;
  const AdviceQuestion question{.mtbf_s = 3600.0, .node_mtbf_s = kMonth, .grace_s = {}, .time_limit_s = {}};
  const auto levels = advise(with_copies, question).two_levels;
  ASSERT_TRUE(levels);
  EXPECT_DOUBLE_EQ(levels->local_s, supervisor::daly_interval_s(0.2, 3600));
  EXPECT_DOUBLE_EQ(levels->checkpoint_s, supervisor::daly_interval_s(2, kMonth));
  EXPECT_LT(levels->lost, advise(with_copies, question).interval->lost) << "or they would be of no use";
  EXPECT_EQ(levels->memory_bytes, 2000U);
  EXPECT_THAT(text_of(advise(with_copies, question)), HasSubstr("copy every 37.8 s"));
}

TEST(Advice, WithoutALocalCopyOnRecordItAsksForOne) {
  const Advice advice = advise(history(), {.mtbf_s = 3600.0, .node_mtbf_s = 1e6, .grace_s = {}, .time_limit_s = {}});
  EXPECT_FALSE(advice.two_levels);
  EXPECT_THAT(advice.missing, Contains(HasSubstr("local_directory")));
}

TEST(Advice, PresentIntervalIsCompared) {
  RunHistory seldom = history();
  seldom.intervals_s = {1700, 1900};
  const Advice advice = advise(seldom, {});
  EXPECT_EQ(advice.interval->present_s, 1800);
  EXPECT_GT(*advice.interval->present_lost, advice.interval->lost);
}

TEST(Advice, StepsLongerThanTheIntervalAreOneStep) {
  RunHistory slow = history();
  slow.steps = 1;
  EXPECT_EQ(advise(slow, {}).interval->steps, 1.0);
}

TEST(Advice, GraceForOneSaveAndForTwo) {
  // 1 s of a step, 2 s of a save, 2 s for the launcher; with the margin 8.5 s. Two saves: 1 + 2 + 1.016 + 2 + 3.
  const auto with_grace = [](double grace_s) {
    return advise(history(), {.mtbf_s = {}, .grace_s = grace_s, .time_limit_s = {}});
  };
  const Advice advice = with_grace(4.9);
  EXPECT_DOUBLE_EQ(advice.notice->needed_s, 5);
  EXPECT_DOUBLE_EQ(advice.notice->with_margin_s, 8.5);
  EXPECT_NEAR(advice.notice->two_saves_s, 9.016, 1e-9);
  EXPECT_EQ(advice.notice->signal_lead_s, 40);
  EXPECT_FALSE(advice.grace_is_enough());
  EXPECT_THAT(text_of(advice), HasSubstr("TOO SHORT"));
  EXPECT_FALSE(with_grace(8).grace_is_enough());
  EXPECT_THAT(text_of(with_grace(8)), HasSubstr("tight"));
  EXPECT_TRUE(with_grace(9).grace_is_enough());
  EXPECT_THAT(text_of(with_grace(9)), HasSubstr("enough for one save"));
  EXPECT_THAT(text_of(with_grace(10)), HasSubstr("enough for two saves"));
}

TEST(Advice, TwoSavesAreWhatTheHandlerHasRoomFor) {
  const double two_saves = advise(history(), {}).notice->two_saves_s;
  const auto room = [](double grace_s) {
    // After the wait of 1 s and the first save of 2 s.
    return handler::room_for_another_save({std::chrono::duration<double>(grace_s - 3), std::chrono::seconds(2),
                                           std::chrono::seconds(1), std::chrono::milliseconds(16),
                                           std::chrono::seconds(1)});
  };
  EXPECT_TRUE(room(two_saves + 0.001));
  EXPECT_FALSE(room(two_saves - 0.001));
}

TEST(Advice, TheLongestWaitAndTheSlowestSaveCountForNotices) {
  RunHistory uneven = history();
  uneven.waits_s = {0.1, 7};
  uneven.saves_s = uneven.blocked_s = std::vector<double>{1, 1, 1, 9};
  const Advice advice = advise(uneven, {});
  EXPECT_DOUBLE_EQ(advice.notice->costs.wait_s, 7);
  EXPECT_DOUBLE_EQ(advice.save_mean_s, 3);
  EXPECT_DOUBLE_EQ(advice.notice->costs.save_s, 9);
}

TEST(Advice, ANoticeCanComeBeforeTheFirstSave) {
  RunHistory slow_at_first = history();
  slow_at_first.saves_s = slow_at_first.blocked_s = std::vector<double>(20, 1);
  slow_at_first.first_saves_s = {5};
  const Advice advice = advise(slow_at_first, {});
  EXPECT_DOUBLE_EQ(advice.save_upper_s, 1);
  EXPECT_DOUBLE_EQ(advice.notice->costs.save_s, 5);
  EXPECT_THAT(text_of(advice), HasSubstr(", 5 s the first of a run; "));
}

TEST(Advice, TooLittleData) {
  const Advice nothing = advise({}, {});
  EXPECT_FALSE(nothing.interval);
  EXPECT_FALSE(nothing.notice);
  EXPECT_THAT(nothing.missing, Contains(HasSubstr("no save is on record")));
  EXPECT_THAT(text_of(nothing), StartsWith("Too little data: 0 saves in 0 s of work on record; "));
  EXPECT_TRUE(to_json(nothing)["notice"].is_null());
  RunHistory no_steps = history();
  no_steps.steps = 0;
  no_steps.saves_s = no_steps.blocked_s = std::vector<double>{2};
  const Advice advice = advise(no_steps, {});
  EXPECT_FALSE(advice.interval->steps);
  EXPECT_THAT(advice.missing, Contains(HasSubstr("no step")));
  EXPECT_THAT(text_of(advice), StartsWith("Too little data: 1 save in 1 h 0 min of work on record; "));
  EXPECT_THAT(text_of(advise(history(), {})), Not(HasSubstr("Too little")));
  EXPECT_THAT(text_of(advice), Not(HasSubstr("save_every_steps")));
}

TEST(Advice, LeadOfAShortJob) {
  const auto text_for = [](double limit_s) {
    return text_of(advise(history(), {.mtbf_s = {}, .grace_s = {}, .time_limit_s = limit_s}));
  };
  EXPECT_THAT(text_for(300), HasSubstr("ask for longer jobs"));
  EXPECT_THAT(text_for(7200), Not(HasSubstr("ask for longer jobs")));
}

// Event logs that real runs have left, and what `status`, `advise` and `report` say of them with --json.

namespace fs = std::filesystem;

const fs::path kRecorded = fs::path(REPRIEVE_SOURCE_DIR) / "tests/unit/recorded";

/// What the commands say half a minute after the last event.
Json answers_about(const fs::path& log) {
  using namespace std::chrono_literals;
  const auto events = core::read_events(log, core::kLongestLog);
  const TimePoint now = core::time_of_event(events.back().time).value() + 30s;
  const Timeline timeline(events);
  const AdviceQuestion question{.mtbf_s = 3600.0, .node_mtbf_s = 86400.0, .grace_s = 20.0, .time_limit_s = 7200.0};
  Json answers{{"advise", to_json(advise(timeline.history(), question))}};
  for (const bool lives : {true, false}) {
    const RunStatus status = timeline.status("run", lives).value();
    answers["status"][lives ? "living" : "dead"] = to_json(status, now);
    answers["report"][lives ? "living" : "dead"] = to_json(timeline.report(status, question, now), now);
  }
  return answers;
}

class RecordedRuns : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedRuns, AreReportedAsTheyAlwaysWere) {
  const fs::path log = kRecorded / (std::string(GetParam()) + ".jsonl");
  fs::path expected = log;
  expected.replace_extension(".json");
  const Json answers = answers_about(log);
  if (::getenv("REPRIEVE_WRITE_RECORDED") != nullptr) {
    std::ofstream(expected) << answers.dump(1) << '\n';
  }
  std::ifstream stream(expected);
  const Json before = Json::parse(stream);
  EXPECT_EQ(answers, before) << Json::diff(before, answers).dump(1);
}

INSTANTIATE_TEST_SUITE_P(Tool, RecordedRuns,
                         ::testing::Values("preempted_killed", "failed_corrupt", "local_copies", "local_left",
                                           "without_handler", "background"),
                         [](const auto& log) { return std::string(log.param); });

/// The page names each field of the JSON, and the JSON has each that the page names.
TEST_P(RecordedRuns, AreReportedAsThePagePromises) {
  const Json answers = answers_about(kRecorded / (std::string(GetParam()) + ".jsonl"));
  const test::JsonPage page;
  const auto expect = [&](const char* command, Json answer) {
    answer["version"] = 1;
    page.expect(command, Json::parse(answer.dump()));
  };
  expect("advise", answers["advise"]);
  for (const char* lives : {"living", "dead"}) {
    expect("status", {{"runs", Json::array({answers["status"][lives]})}});
    expect("report", {{"runs", Json::array({answers["report"][lives]})}});
  }
}

/// The others are in each answer, so that the tests that ask for JSON miss them.
TEST(JsonPage, OptionalFieldsAreNamedInTheTool) {
  std::string sources;
  for (const auto& entry : fs::directory_iterator(fs::path(REPRIEVE_SOURCE_DIR) / "apps/reprieve")) {
    sources += entry.path().extension() == ".cpp" ? test::read_text(entry.path()) : "";
  }
  for (const std::string& name : test::JsonPage().optional_names()) {
    EXPECT_THAT(sources, HasSubstr('"' + name + '"'));
  }
}

TEST(RecordedRunsList, AllAreCompared) {
  const auto logs = std::ranges::count_if(fs::directory_iterator(kRecorded),
                                          [](const auto& entry) { return entry.path().extension() == ".jsonl"; });
  EXPECT_EQ(logs, 6);
}

}  // namespace
}  // namespace reprieve::tool
