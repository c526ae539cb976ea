// SPDX-License-Identifier: BSD-3-Clause
// What a supervisor reads from the record of a run, and how it judges its end.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "supervisor/run_progress.hpp"
#include "support/logged_events.hpp"

namespace reprieve::supervisor {
namespace {

using Json = nlohmann::json;
using End = LaunchResult::End;
using ::testing::HasSubstr;

const Json kStartEvent{{"event", "start"}, {"directory", "/data/c"}, {"host", "n1"}, {"pid", 7}, {"world_size", 4}};
const Json kReading{{"event", "restore_started"}, {"file", "ckpt-10.h5"}};
const Json kRestored{{"event", "restore"}, {"number", 10}, {"run_calls", 10}};
const Json kReady{{"event", "ready"}, {"run_calls", 10}, {"signals", {"SIGTERM", "SIGUSR1"}}, {"restart_code", 43}};
const Json kNotice{{"event", "notice"}, {"rank", 2}};
const Json kSaved20{{"event", "save_finished"}, {"number", 20}, {"run_calls", 20}};
const Json kExit{
    {"event", "exit"}, {"exit_code", 43}, {"checkpoint", "/data/c/ckpt-20.h5"}, {"seconds_from_notice", 0.5}};
const Json kFinished{{"event", "finished"}, {"run_calls", 30}};
const Json kError{{"event", "error"}, {"error", "cluster"}, {"message", "rank 1 failed"}};
const Json kMismatch{{"event", "restore_failed"}, {"error", "mismatch"}, {"message", "another shape"}};
const Json kCorrupt{{"event", "restore_failed"}, {"error", "corrupt"}, {"message", "checksum"}};
const Json kFinishedBefore{{"event", "already_finished"}, {"run_calls", 100}};
const Json kWentOn{{"event", "went_on"}};

void take(RunProgress& progress, const char* record, const Json& event) { progress.take(record, test::logged(event)); }

RunProgress progress_of(const std::vector<Json>& events) {
  RunProgress progress;
  for (const Json& event : events) {
    take(progress, "n1.7.jsonl", event);
  }
  return progress;
}

TEST(RunProgress, ReadyOnlyWhenTheRanksWatchTheirSignals) {
  EXPECT_FALSE(progress_of({}).ready());
  EXPECT_FALSE(progress_of({kStartEvent}).ready());
  EXPECT_FALSE(progress_of({kStartEvent, kReading, kRestored}).ready());
  EXPECT_FALSE(progress_of({kStartEvent, kReading, kRestored}).has_handler()) << "a manager alone is never ready";
  EXPECT_TRUE(progress_of({kStartEvent, kReading, kRestored, kReady}).ready());
}

TEST(RunProgress, ReadyOnlyWhenEveryManagerIs) {
  RunProgress progress = progress_of({kStartEvent, kReady});
  take(progress, "n1.8.jsonl", kStartEvent);
  take(progress, "n1.8.jsonl", {{"event", "handler"}});
  EXPECT_FALSE(progress.ready());
  take(progress, "n1.8.jsonl", kReady);
  EXPECT_TRUE(progress.ready());
}

/// A model of two parts has a manager for each, and a handler for all.
TEST(RunProgress, ManagersWithoutAHandlerAreNotWaitedFor) {
  const Json handler{{"event", "handler"}};
  RunProgress progress = progress_of({kStartEvent, handler});
  take(progress, "n1.7.1.jsonl", {{"event", "start"}, {"directory", "/data/part"}});
  EXPECT_FALSE(progress.ready());
  take(progress, "n1.7.jsonl", kReady);
  EXPECT_TRUE(progress.ready());
  EXPECT_FALSE(progress.notice_arrived());
  take(progress, "n1.7.1.jsonl", kReading);
  EXPECT_FALSE(progress.ready()) << "it is reading";
  take(progress, "n1.7.1.jsonl", kRestored);
  EXPECT_TRUE(progress.ready());
  take(progress, "n1.7.jsonl", kNotice);
  EXPECT_TRUE(progress.notice_arrived());
  take(progress, "n1.7.jsonl", kExit);
  EXPECT_EQ(judge(progress, 1).end, End::saved);
}

/// A solver has diverged, for one.
TEST(RunProgress, WhoGoesBackToACheckpointInItsWorkStaysReady) {
  for (const auto& more : std::vector<std::vector<Json>>{{kReading}, {kReading, kRestored}, {kReading, kMismatch}}) {
    RunProgress progress = progress_of({kStartEvent, kReady});
    for (const Json& event : more) {
      take(progress, "n1.7.jsonl", event);
    }
    EXPECT_TRUE(progress.ready());
    EXPECT_FALSE(progress.notice_arrived());
    EXPECT_EQ(progress.error(), nullptr);
  }
}

/// An optional directory, for one: the program has caught the error.
TEST(RunProgress, WhatAnExtraManagerCouldNotDoCountsOnlyWhereNoHandlerCameToItsEnd) {
  for (const bool preempted : {true, false}) {
    RunProgress progress = progress_of({kStartEvent, {{"event", "handler"}}, kReady});
    take(progress, "n1.7.1.jsonl", {{"event", "start"}, {"directory", "/data/part"}});
    take(progress, "n1.7.1.jsonl", kReading);
    take(progress, "n1.7.1.jsonl", kMismatch);
    EXPECT_NE(progress.error(), nullptr);
    take(progress, "n1.7.jsonl", preempted ? kExit : kFinished);
    EXPECT_EQ(judge(progress, preempted ? 43 : 0).end, preempted ? End::saved : End::finished);
  }
}

TEST(RunProgress, ARestoreInTheMiddleOfTheWorkThatNobodyCatchesIsTheReason) {
  const LaunchResult uncaught = judge(progress_of({kStartEvent, kReady, kReading, kMismatch}), 134);
  EXPECT_TRUE(uncaught.hopeless);
  EXPECT_EQ(uncaught.reason, "another shape");
  EXPECT_FALSE(judge(progress_of({kStartEvent, kReady, kReading, kMismatch, kSaved20}), 137).hopeless);
}

TEST(RunProgress, WhatAStartLeavesToDo) {
  EXPECT_TRUE(progress_of({kStartEvent, kReady}).leaves_work());
  EXPECT_TRUE(progress_of({kStartEvent, kReady, kNotice, kSaved20, kExit}).leaves_work());
  EXPECT_TRUE(progress_of({kStartEvent, kReady, kError}).leaves_work());
  EXPECT_FALSE(progress_of({kStartEvent, kReady, kFinished}).leaves_work());
  EXPECT_FALSE(progress_of({kStartEvent}).leaves_work()) << "who has no handler does not say";
}

TEST(RunProgress, NoticeArrivedOrIsOfNoUse) {
  EXPECT_FALSE(progress_of({}).notice_arrived());
  EXPECT_FALSE(progress_of({kStartEvent, kReady}).notice_arrived());
  EXPECT_TRUE(progress_of({kStartEvent, kReady, kNotice}).notice_arrived());
  EXPECT_TRUE(progress_of({kStartEvent, kReady, kFinished}).notice_arrived());
  // A second handler of the same process has not heard of it yet.
  EXPECT_FALSE(progress_of({kStartEvent, kReady, kNotice, kFinished, kStartEvent, kReady}).notice_arrived());
}

TEST(RunProgress, ProgressIsACheckpointOfFurtherSteps) {
  const auto saved = [](int number, int step) {
    return Json{{"event", "save_finished"}, {"number", number}, {"run_calls", step}};
  };
  EXPECT_TRUE(progress_of({kStartEvent, kReady, kSaved20}).progressed());
  EXPECT_FALSE(progress_of({kStartEvent, kReading, kRestored, kReady}).progressed());
  EXPECT_TRUE(progress_of({kStartEvent, kReading, kRestored, kReady, kSaved20}).progressed());
  EXPECT_FALSE(progress_of({kStartEvent, kRestored, kReady, saved(10, 10)}).progressed()) << "the same step once more";
  EXPECT_TRUE(progress_of({kStartEvent, kRestored, kReady, saved(10, 11)}).progressed());
  EXPECT_TRUE(progress_of({kStartEvent, kRestored, kReady, saved(3, 11)}).progressed()) << "numbers need not grow";
}

TEST(RunProgress, ForeignEventsAndTypesDoNoHarm) {
  RunProgress progress = progress_of({{{"event", "start"}, {"pid", "seven"}, {"directory", 3}},
                                      {{"event", 5}},
                                      {{"event", "save_finished"}, {"number", -1.5}},
                                      {{"event", "of a later version"}},
                                      {{"event", "ready"}, {"signals", "SIGTERM"}}});
  EXPECT_TRUE(progress.ready());
  EXPECT_TRUE(progress.directories().empty());
}

/// What a start told, how its command ended, and what that means.
struct Judgement {
  std::vector<Json> events;
  int code = 0;
  End end = End::finished;
  int exit_code = 0;
  const char* reason = "";  ///< a part of it
};

TEST(LaunchResult, FollowsFromTheRecordAndTheCode) {
  const std::vector<Judgement> judgements{
      {{kStartEvent, kReady, kFinished}, 0, End::finished, 0},
      // `mpirun ... | tee log` returns 0 whatever became of the ranks.
      {{kStartEvent, kReady, kSaved20}, 0, End::failed, 1, "never closed"},
      // Programs without a handler are believed.
      {{}, 0, End::finished, 0, "opened no checkpoint directory"},
      {{kStartEvent}, 0, End::finished, 0, "made no handler"},
      // Whatever the launcher says.
      {{kStartEvent, kReady, kNotice, kSaved20, kExit}, 0, End::saved, 43},
      {{kStartEvent, kReady, kNotice, kSaved20, kExit}, 1, End::saved, 43},
      {{kStartEvent, kReady, kNotice, kSaved20, kExit}, 195, End::saved, 43},
      {{kStartEvent, kReady, kNotice, kSaved20, kExit, kWentOn}, 139, End::failed, 139},
      // A failure never looks like success or like a save.
      {{kStartEvent, kReady, kError}, 0, End::failed, 1, "rank 1 failed"},
      {{kStartEvent, kReady, kError}, 3, End::failed, 3, "rank 1 failed"},
      {{kStartEvent, kReady}, 43, End::failed, 1},
      {{}, 42, End::failed, 1},
      {{kStartEvent, kReady}, 7, End::failed, 7},
      {{kStartEvent, kReady}, 137, End::failed, 137, "signal SIGKILL (137)"},
      // Launchers have been seen to return 0 for ranks that crashed in the middle of something.
      {{kStartEvent, kReading}, 0, End::failed, 1},
      {{kStartEvent, kReady, kNotice}, 0, End::failed, 1},
      {{kStartEvent, kReady, kNotice, kSaved20}, 0, End::failed, 1},
      // Finished although there was a notice.
      {{kStartEvent, kReady, kNotice, kSaved20, kFinished}, 0, End::finished, 0},
      {{kStartEvent, kReady, kNotice, kSaved20, kExit, kWentOn, kFinished}, 0, End::finished, 0},
      // Steps that are done are not the end of the program.
      {{kStartEvent, kReady, kSaved20, kFinished}, 7, End::failed, 7, "all steps are done"},
      {{kStartEvent, kReady, kSaved20, kFinished}, 42, End::failed, 42, "all steps are done"},
      // The same holds for a run that was finished before.
      {{kStartEvent, kReading, kRestored, kFinishedBefore, kReady, kFinished}, 0, End::finished, 0},
      {{kStartEvent, kReading, kRestored, kFinishedBefore, kReady, kFinished}, 3, End::failed, 3, "all steps are done"},
      // A corrupt checkpoint that was passed over is forgotten.
      {{kStartEvent, kReading, kCorrupt, kReading, kRestored, kReady}, 139, End::failed, 139},
  };
  for (const Judgement& wanted : judgements) {
    const RunProgress progress = progress_of(wanted.events);
    const LaunchResult launch_result = judge(progress, wanted.code);
    const std::string what = Json(wanted.events).dump() + " and code " + std::to_string(wanted.code);
    EXPECT_EQ(launch_result.end, wanted.end) << what;
    EXPECT_EQ(launch_result.exit_code, wanted.exit_code) << what;
    EXPECT_THAT(launch_result.reason, HasSubstr(wanted.reason)) << what;
    EXPECT_FALSE(launch_result.hopeless) << what;
    EXPECT_EQ(launch_result.progressed, progress.progressed()) << what;
  }
}

TEST(LaunchResult, WithoutRanksThePlatformSaysTheRestartCode) {
  EXPECT_EQ(progress_of({}).restart_code(), 42);
  ::setenv("REPRIEVE_PLATFORM", "sge", 1);
  EXPECT_EQ(progress_of({}).restart_code(), 99) << "no rank was there to report it";
  EXPECT_EQ(progress_of({kReady}).restart_code(), 43);
  ::unsetenv("REPRIEVE_PLATFORM");
}

/// A script that tries again until it succeeds.
TEST(LaunchResult, WhatAnotherProgramHasMadeGoodCountsNoMore) {
  const auto at = [](Json event, const char* time) {
    event["time"] = time;
    return event;
  };
  RunProgress progress;
  take(progress, "n1.9.jsonl", at(kStartEvent, "2026-03-01T12:00:00.000000Z"));
  take(progress, "n1.9.jsonl", kReady);
  take(progress, "n1.7.jsonl", at(kStartEvent, "2026-03-01T12:00:05.000000Z"));
  take(progress, "n1.7.jsonl", kReady);
  EXPECT_EQ(judge(progress, 0).end, End::failed);
  take(progress, "n1.7.jsonl", kFinished);
  EXPECT_EQ(judge(progress, 0).end, End::finished);
  take(progress, "n1.8.jsonl", at({{"event", "start"}, {"directory", "/data/other"}}, "2026-03-01T12:00:03.000000Z"));
  take(progress, "n1.8.jsonl", kReady);
  EXPECT_EQ(judge(progress, 0).end, End::failed);  // another directory
}

TEST(LaunchResult, NotSavedWhenOneOfTwoManagersDid) {
  RunProgress progress = progress_of({kStartEvent, kReady, kNotice, kSaved20, kExit});
  take(progress, "n1.8.jsonl", kStartEvent);
  take(progress, "n1.8.jsonl", kReady);
  EXPECT_EQ(judge(progress, 137).end, End::failed);
  EXPECT_EQ(judge(progress, 0).end, End::failed);
  take(progress, "n1.8.jsonl", kFinished);
  EXPECT_EQ(judge(progress, 43).end, End::saved);
}

TEST(LaunchResult, WhoDiesReadingACheckpointNamesIt) {
  const LaunchResult died = judge(progress_of({kStartEvent, kReading}), 139);
  EXPECT_EQ(died.died_restoring, std::filesystem::path("/data/c/ckpt-10.h5"));
  EXPECT_FALSE(died.hopeless);
  EXPECT_EQ(judge(progress_of({kStartEvent, kReading, kRestored}), 139).died_restoring, std::nullopt);
}

TEST(LaunchResult, StateThatDoesNotFitIsHopelessAndNotTheCheckpointsFault) {
  const LaunchResult launch_result = judge(progress_of({kStartEvent, kReading, kMismatch}), 1);
  EXPECT_TRUE(launch_result.hopeless);
  EXPECT_EQ(launch_result.died_restoring, std::nullopt);
  EXPECT_EQ(launch_result.reason, "another shape");
}

// When a notice is sent, and whether a run is started again.

using namespace std::chrono_literals;

class NoticePlanTest : public ::testing::Test {
 protected:
  void happen(const char* event) { progress_.take("record", test::logged({{"event", event}})); }
  bool due(std::chrono::milliseconds at) { return plan_.send_is_due(progress_, start_ + at); }

  NoticePlan plan_{60s};
  RunProgress progress_;
  NoticePlan::Clock::time_point start_{1000s};
};

TEST_F(NoticePlanTest, WaitsUntilTheRanksAreReady) {
  plan_.request(start_);
  EXPECT_FALSE(due(0ms));
  happen("start");
  EXPECT_FALSE(due(10ms));
  EXPECT_FALSE(due(24h));  // it may have much to restore
  happen("ready");
  EXPECT_TRUE(due(24h));
}

TEST_F(NoticePlanTest, IsSentOnRequestAndEverMoreRarelyUntilItArrives) {
  happen("start");
  happen("ready");
  EXPECT_FALSE(due(0s));
  plan_.request(start_);
  EXPECT_TRUE(due(0s));
  EXPECT_FALSE(due(900ms));
  EXPECT_TRUE(due(1s));
  EXPECT_FALSE(due(2900ms));
  EXPECT_TRUE(due(3s));
  EXPECT_EQ(plan_.sent(), 3);
  happen("notice");
  EXPECT_FALSE(due(1h));
}

TEST_F(NoticePlanTest, ProgramThatSaysNothingIsWaitedForOnlySoLong) {
  plan_.request(start_);
  EXPECT_FALSE(due(59s));
  EXPECT_TRUE(due(60s));
}

LaunchResult ended(End end, bool progressed) {
  LaunchResult launch_result;
  launch_result.end = end;
  launch_result.progressed = progressed;
  return launch_result;
}

LaunchResult died_reading(const char* file) {
  LaunchResult launch_result = ended(End::failed, false);
  launch_result.died_restoring = file;
  return launch_result;
}

TEST(RestartPolicy, WhereNoRestartIsDueNothingIsSaid) {
  for (const auto& decision : {RestartPolicy({.restarts = 5}).decide(ended(End::finished, true), false),
                               RestartPolicy({}).decide(ended(End::failed, false), false)}) {
    EXPECT_FALSE(decision.restart);
    EXPECT_EQ(decision.reason, "");
  }
}

TEST(RestartPolicy, SavedRunIsStartedAgainAtOnceUntilTheBudgetEnds) {
  RestartPolicy policy({.restarts = 2});
  const auto first = policy.decide(ended(End::saved, true), false);
  EXPECT_TRUE(first.restart);
  EXPECT_EQ(first.pause, 0ms);
  EXPECT_TRUE(policy.decide(ended(End::failed, true), false).restart);
  const auto last = policy.decide(ended(End::saved, true), false);
  EXPECT_FALSE(last.restart);
  EXPECT_THAT(last.reason, HasSubstr("all 2 restarts are used"));
}

TEST(RestartPolicy, PausesDoubleWhileThereIsNoProgress) {
  RestartPolicy policy({.restarts = 100, .first_pause = 1s, .longest_pause = 5s, .fruitless_runs = 100});
  EXPECT_EQ(policy.decide(ended(End::failed, false), false).pause, 1s);
  EXPECT_EQ(policy.decide(ended(End::failed, false), false).pause, 2s);
  EXPECT_EQ(policy.decide(ended(End::failed, false), false).pause, 4s);
  EXPECT_EQ(policy.decide(ended(End::failed, false), false).pause, 5s);
  EXPECT_EQ(policy.decide(ended(End::failed, true), false).pause, 1s);
  EXPECT_EQ(policy.decide(ended(End::failed, false), false).pause, 1s);
}

TEST(RestartPolicy, GivesUpOnACrashLoop) {
  RestartPolicy policy({.restarts = 100});
  EXPECT_TRUE(policy.decide(ended(End::failed, false), false).restart);
  EXPECT_TRUE(policy.decide(ended(End::failed, false), false).restart);
  const auto third = policy.decide(ended(End::failed, false), false);
  EXPECT_FALSE(third.restart);
  EXPECT_THAT(third.reason, HasSubstr("crash loop: 3 runs"));
}

TEST(RestartPolicy, ProgressBreaksTheLoop) {
  RestartPolicy policy({.restarts = 100});
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(policy.decide(ended(End::failed, i % 3 == 2), false).restart) << i;
  }
}

TEST(RestartPolicy, GivesUpWhenSavedRunsMakeNoProgress) {
  RestartPolicy policy({.restarts = 100});
  EXPECT_TRUE(policy.decide(ended(End::saved, true), false).restart);
  EXPECT_TRUE(policy.decide(ended(End::saved, false), false).restart);
  EXPECT_TRUE(policy.decide(ended(End::saved, false), false).restart);
  EXPECT_THAT(policy.decide(ended(End::saved, false), false).reason, HasSubstr("no progress"));
}

TEST(RestartPolicy, HopelessErrorIsNotTriedAgain) {
  LaunchResult launch_result = ended(End::failed, false);
  launch_result.hopeless = true;
  const auto decision = RestartPolicy({.restarts = 5}).decide(launch_result, false);
  EXPECT_FALSE(decision.restart);
  EXPECT_THAT(decision.reason, HasSubstr("same error"));
}

TEST(RestartPolicy, CheckpointThatKillsTwiceIsSuspected) {
  RestartPolicy policy({.restarts = 100});
  EXPECT_EQ(policy.file_to_verify(ended(End::failed, false)), std::nullopt);
  EXPECT_EQ(policy.file_to_verify(died_reading("/c/ckpt-20.h5")), std::nullopt);
  EXPECT_EQ(policy.file_to_verify(died_reading("/c/ckpt-20.h5")), std::filesystem::path("/c/ckpt-20.h5"));
  EXPECT_EQ(policy.file_to_verify(died_reading("/c/ckpt-20.h5")), std::filesystem::path("/c/ckpt-20.h5"));
  // The one before it has its own count.
  EXPECT_EQ(policy.file_to_verify(died_reading("/c/ckpt-10.h5")), std::nullopt);
  EXPECT_EQ(policy.file_to_verify(died_reading("/c/ckpt-10.h5")), std::filesystem::path("/c/ckpt-10.h5"));
}

TEST(RestartPolicy, TheLoopBeginsAgainWhereTheNextRunBeginsElsewhere) {
  RestartPolicy policy({.restarts = 100});
  EXPECT_TRUE(policy.decide(died_reading("/c/ckpt-20.h5"), false).restart);
  EXPECT_TRUE(policy.decide(died_reading("/c/ckpt-20.h5"), true).restart);
  EXPECT_TRUE(policy.decide(died_reading("/c/ckpt-10.h5"), false).restart);
  EXPECT_TRUE(policy.decide(died_reading("/c/ckpt-10.h5"), false).restart);
  EXPECT_FALSE(policy.decide(died_reading("/c/ckpt-10.h5"), false).restart);
}

TEST(SupervisorEvent, DescribesWhatTheRunRecorded) {
  const auto saved = describe(test::logged(
      {{"event", "save_finished"}, {"file", "ckpt-7.h5"}, {"run_calls", 7}, {"seconds", 0.25}, {"number", 7}}));
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->name, "save_finished");
  EXPECT_EQ(saved->text, "saved ckpt-7.h5 (step 7) in 250 ms");
  EXPECT_EQ(saved->fields["number"], 7);
  EXPECT_TRUE(describe(test::logged({{"event", "save_finished"}})));  // nothing else in it: still words
  const auto fallback = describe(test::logged({{"event", "fallback"},
                                               {"file", "ckpt-5.h5"},
                                               {"instead_of", "ckpt-7.h5"},
                                               {"run_calls", 5},
                                               {"steps_lost", 2}}));
  ASSERT_TRUE(fallback);
  EXPECT_EQ(fallback->text,
            "WORK IS LOST: ckpt-7.h5 is corrupt, the run resumes from ckpt-5.h5 (step 5), 2 steps before");
  EXPECT_FALSE(describe(test::logged({{"event", "retired"}, {"number", 7}})));
}

}  // namespace
}  // namespace reprieve::supervisor
