// SPDX-License-Identifier: BSD-3-Clause
// When a notice is sent, and whether a run is started again.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "supervisor/run_progress.hpp"
#include "support/logged_events.hpp"

namespace reprieve::supervisor {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using End = Verdict::End;
using ::testing::HasSubstr;

class NoticePlanTest : public ::testing::Test {
 protected:
  void happen(const char* event) { progress_.take("record", test::logged({{"event", event}})); }
  bool due(std::chrono::milliseconds at) { return plan_.send_is_due(progress_, start_ + at); }

  NoticePlan plan_{60s};
  RunProgress progress_;
  NoticePlan::Clock::time_point start_{1000s};
};

TEST_F(NoticePlanTest, NothingIsSentWithoutARequest) {
  happen("start");
  happen("ready");
  EXPECT_FALSE(due(0ms));
}

TEST_F(NoticePlanTest, WaitsUntilTheRanksAreReady) {
  plan_.request(start_);
  EXPECT_FALSE(due(0ms));
  happen("start");
  EXPECT_FALSE(due(10ms));
  EXPECT_FALSE(due(24h));  // it may have much to restore
  happen("ready");
  EXPECT_TRUE(due(24h));
}

TEST_F(NoticePlanTest, IsRepeatedEverMoreRarelyUntilItArrives) {
  happen("start");
  happen("ready");
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

TEST_F(NoticePlanTest, ProgramThatTellsNothingIsWaitedForOnlySoLong) {
  plan_.request(start_);
  EXPECT_FALSE(due(59s));
  EXPECT_TRUE(due(60s));
}

TEST_F(NoticePlanTest, NothingIsSentToAProgramThatIsDone) {
  happen("start");
  happen("ready");
  happen("finished");
  plan_.request(start_);
  EXPECT_FALSE(due(1h));
}

Verdict ended(End end, bool progressed) {
  Verdict verdict;
  verdict.end = end;
  verdict.progressed = progressed;
  return verdict;
}

Verdict died_reading(const char* file) {
  Verdict verdict = ended(End::failed, false);
  verdict.died_restoring = file;
  return verdict;
}

TEST(RestartPolicy, FinishedRunIsNotStartedAgain) {
  const auto decision = RestartPolicy({.restarts = 5}).decide(ended(End::finished, true), false);
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.reason, "");
}

TEST(RestartPolicy, WithoutRestartsNothingIsSaid) {
  const auto decision = RestartPolicy({}).decide(ended(End::failed, false), false);
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.reason, "");
}

TEST(RestartPolicy, SavedRunIsStartedAgainAtOnce) {
  const auto decision = RestartPolicy({.restarts = 1}).decide(ended(End::saved, true), false);
  EXPECT_TRUE(decision.restart);
  EXPECT_EQ(decision.pause, 0ms);
}

TEST(RestartPolicy, BudgetEnds) {
  RestartPolicy policy({.restarts = 2});
  EXPECT_TRUE(policy.decide(ended(End::saved, true), false).restart);
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
  Verdict verdict = ended(End::failed, false);
  verdict.hopeless = true;
  const auto decision = RestartPolicy({.restarts = 5}).decide(verdict, false);
  EXPECT_FALSE(decision.restart);
  EXPECT_THAT(decision.reason, HasSubstr("same error"));
}

TEST(RestartPolicy, CheckpointThatKillsTwiceIsSuspected) {
  RestartPolicy policy({.restarts = 100});
  EXPECT_EQ(policy.suspect(ended(End::failed, false)), std::nullopt);
  EXPECT_EQ(policy.suspect(died_reading("/c/ckpt-20.h5")), std::nullopt);
  EXPECT_EQ(policy.suspect(died_reading("/c/ckpt-20.h5")), std::filesystem::path("/c/ckpt-20.h5"));
  EXPECT_EQ(policy.suspect(died_reading("/c/ckpt-20.h5")), std::filesystem::path("/c/ckpt-20.h5"));
  // The one before it has its own count.
  EXPECT_EQ(policy.suspect(died_reading("/c/ckpt-10.h5")), std::nullopt);
  EXPECT_EQ(policy.suspect(died_reading("/c/ckpt-10.h5")), std::filesystem::path("/c/ckpt-10.h5"));
}

TEST(RestartPolicy, TheLoopBeginsAnewWhereTheNextRunBeginsElsewhere) {
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
  EXPECT_EQ(saved->text, "saved ckpt-7.h5 (step 7) in 0.25 s");
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
