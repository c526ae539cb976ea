// SPDX-License-Identifier: BSD-3-Clause
// What is saved at which step boundary, by results that all ranks have alike.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "handler/notices.hpp"
#include "handler/save_policy.hpp"

namespace reprieve::handler {
namespace {

using namespace std::chrono_literals;
using cluster::CheckResult;
using cluster::RequestedSave;
using Kind = Decision::Kind;

CheckResult notice_at(cluster::BoundaryIndex act_at, std::optional<std::chrono::milliseconds> left = std::nullopt) {
  return {.act_at = act_at, .notice_rank = 3, .time_left = left, .step_time = 100ms};
}

CheckResult request_at(cluster::BoundaryIndex act_at, RequestedSave requested) {
  return {.act_at = act_at, .requested = requested};
}

class SavePolicyTest : public testing::Test {
 protected:
  void expect_decision(Kind kind, cluster::BoundaryIndex at) {
    ASSERT_TRUE(policy_.decision().has_value());
    EXPECT_EQ(policy_.decision()->kind, kind);
    EXPECT_EQ(policy_.decision()->at, at);
  }

  SavePolicy policy_{{.every_steps = 10, .grace_margin = 1000ms}};
};

TEST_F(SavePolicyTest, NothingIsDecidedWithoutANewReason) {
  policy_.decide({.act_at = 5}, {});
  EXPECT_FALSE(policy_.decision().has_value());
  policy_.decide(notice_at(7), {.notice_is_agreed = true});
  EXPECT_FALSE(policy_.decision().has_value()) << "all ranks know of the notice";
  policy_.decide(request_at(5, RequestedSave::user), {.notice_is_agreed = true});
  EXPECT_FALSE(policy_.decision().has_value()) << "no request is heeded within a grace period";
  EXPECT_FALSE(policy_.commit_is_planned());
}

TEST_F(SavePolicyTest, ANoticeIsActedOnWhereAllRanksAre) {
  policy_.decide(notice_at(7), {});
  expect_decision(Kind::preemption, 7);
  EXPECT_EQ(policy_.decision()->notice_rank, 3);
  EXPECT_FALSE(policy_.decision_is_due(6));
  EXPECT_TRUE(policy_.decision_is_due(7));
  EXPECT_TRUE(policy_.preemption_is_decided());
}

TEST_F(SavePolicyTest, ANoticeGoesBeforeARequestButNotTheOtherWay) {
  policy_.decide(request_at(5, RequestedSave::user), {});
  expect_decision(Kind::requested_save, 5);
  policy_.decide(notice_at(9), {});
  expect_decision(Kind::preemption, 9);
  policy_.decide(request_at(10, RequestedSave::user), {});
  expect_decision(Kind::preemption, 9);
}

TEST_F(SavePolicyTest, ARequestIsDecidedOnceAndNamesItsReason) {
  policy_.decide(request_at(5, RequestedSave::periodic), {});
  policy_.decide(request_at(8, RequestedSave::user), {});
  expect_decision(Kind::requested_save, 5);
  EXPECT_EQ(policy_.take_decision().reason, SaveReason::Kind::periodic);
  EXPECT_FALSE(policy_.decision().has_value());
  policy_.decide(request_at(8, RequestedSave::user), {});
  EXPECT_EQ(policy_.take_decision().reason, SaveReason::Kind::user);
}

TEST_F(SavePolicyTest, TheLastSaveIsDecidedWhenAnotherCheckWouldBeTooLate) {
  policy_.note_save(2s, 2s);
  policy_.decide(notice_at(18, 10ms), {.notice_is_agreed = true});
  EXPECT_FALSE(policy_.decision().has_value()) << "who does not train on needs no last save";
  policy_.train_on();
  // 1 s margin, 2 s for the save, 16 ms until the next check, two steps of 100 ms.
  policy_.decide(notice_at(20, 3217ms), {.notice_is_agreed = true});
  EXPECT_FALSE(policy_.decision().has_value());
  policy_.decide(notice_at(22, 3216ms), {.notice_is_agreed = true});
  expect_decision(Kind::final_save, 22);
}

TEST_F(SavePolicyTest, TheAutomaticIntervalFollowsFromTheCostOfASave) {
  const auto seconds = [](double cost) { return automatic_interval(std::chrono::duration<double>(cost)).count(); };
  EXPECT_DOUBLE_EQ(seconds(0), 600) << "it is not known yet";
  EXPECT_DOUBLE_EQ(seconds(2), 600);
  EXPECT_NEAR(seconds(10), 1314.5, 0.1) << "sqrt(2 * 10 s * 24 h)";
  EXPECT_DOUBLE_EQ(seconds(30), 3000) << "1 % of the time";
  EXPECT_DOUBLE_EQ(policy_.automatic_interval().count(), 600);
  policy_.note_save(60s, 30s);  // in the background a save stops the program for a part of its time
  EXPECT_DOUBLE_EQ(policy_.automatic_interval().count(), 3000);
}

TEST_F(SavePolicyTest, BackgroundSaveIsCommittedWhenAllHaveWrittenIt) {
  policy_.decide({.act_at = 4, .written = 1}, {.background_is_pending = true, .background_begun = 2});
  EXPECT_FALSE(policy_.commit_is_planned()) << "that was the save before";
  policy_.decide({.act_at = 6, .written = 2}, {.background_is_pending = true, .background_begun = 2});
  policy_.decide({.act_at = 8, .written = 2}, {.background_is_pending = true, .background_begun = 2});
  EXPECT_FALSE(policy_.commit_is_due(5));
  EXPECT_TRUE(policy_.commit_is_due(6));
  policy_.drop_commit();
  EXPECT_FALSE(policy_.commit_is_due(6));
}

TEST_F(SavePolicyTest, ANewPhaseBringsForwardWhatIsDecided) {
  policy_.decide(notice_at(30), {});
  policy_.decide({.act_at = 32, .written = 1}, {.background_is_pending = true, .background_begun = 1});
  policy_.bring_forward(12);
  EXPECT_TRUE(policy_.decision_is_due(12));
  EXPECT_TRUE(policy_.commit_is_due(12));
  policy_.bring_forward(40);
  EXPECT_TRUE(policy_.decision_is_due(12)) << "never later";
}

TEST_F(SavePolicyTest, PeriodicSavesAreAtMultiplesEvenIfStepsPassThem) {
  policy_.plan_periodic_save(0);
  EXPECT_FALSE(policy_.periodic_save_is_due(9));
  EXPECT_TRUE(policy_.periodic_save_is_due(10));
  EXPECT_TRUE(policy_.periodic_save_is_due(13));
  policy_.plan_periodic_save(13);
  EXPECT_FALSE(policy_.periodic_save_is_due(19));
  EXPECT_TRUE(policy_.periodic_save_is_due(20));
  SavePolicy without_any{{}};
  without_any.plan_periodic_save(0);
  EXPECT_FALSE(without_any.periodic_save_is_due(1'000'000));
}

GraceInputs inputs(std::chrono::duration<double> time_left) {
  return {.time_left = time_left, .save_time = 2s, .step_time = 500ms, .check_interval = 10ms, .margin = 1s};
}

TEST(GracePlanner, TheLastSaveIsDueWhenTheNextCheckWouldBeTooLate) {
  EXPECT_FALSE(final_save_is_due(inputs(60s)));
  EXPECT_FALSE(final_save_is_due(inputs(4.1s)));
  EXPECT_TRUE(final_save_is_due(inputs(4.01s)));
  EXPECT_TRUE(final_save_is_due(inputs(0s)));
  EXPECT_TRUE(final_save_is_due(inputs(-5s)));
}

TEST(GracePlanner, TrainingOnNeedsRoomForAStepAndASave) {
  EXPECT_TRUE(room_for_another_save(inputs(60s)));
  EXPECT_FALSE(room_for_another_save(inputs(4.4s)));
  EXPECT_FALSE(room_for_another_save(inputs(-1s)));
  for (double left = 0; left < 10; left += 0.01) {
    const auto in = inputs(std::chrono::duration<double>(left));
    EXPECT_FALSE(room_for_another_save(in) && final_save_is_due(in)) << left;
  }
}

TEST(GracePlanner, ASaveFitsIfTheMarginIsLeftOver) {
  EXPECT_TRUE(save_fits(10s, 8s, 1s));
  EXPECT_TRUE(save_fits(10s, 9s, 1s));
  EXPECT_FALSE(save_fits(10s, 9.1s, 1s));
}

TEST(DurationHistory, WithFewValuesTheLongestCounts) {
  DurationHistory history;
  EXPECT_TRUE(history.empty());
  EXPECT_EQ(history.upper_estimate(), 0s);
  for (const auto value : {1s, 7s, 3s}) {
    history.add(value);
  }
  EXPECT_EQ(history.upper_estimate(), 7s);
}

TEST(DurationHistory, OneOutlierAmongManyDoesNotCountAndOldValuesAreForgotten) {
  DurationHistory history;
  history.add(100s);
  for (int i = 0; i < 15; ++i) {
    history.add(2s);
  }
  EXPECT_EQ(history.upper_estimate(), 2s);
  for (int i = 0; i < 16; ++i) {
    history.add(5s);
  }
  EXPECT_EQ(history.upper_estimate(), 5s);
}

// The thread that acts when a notice has stood for too long.

using std::chrono::milliseconds;

struct Watched {
  std::atomic<bool> notice{false};
  std::atomic<int> looks{0};
  std::atomic<int> acts{0};

  [[nodiscard]] NoticeWatch watch(milliseconds after) {
    return {[this] {
              ++looks;
              return notice.load();
            },
            after, [this] { ++acts; }};
  }
  void wait_for_looks(int more) const {
    for (const int before = looks; looks < before + more;) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
};

TEST(NoticeWatch, ActsOnceForEachNotice) {
  Watched watched;
  const NoticeWatch watch = watched.watch(milliseconds(0));
  watched.wait_for_looks(2);
  EXPECT_EQ(watched.acts, 0) << "there is no notice yet";
  for (int notices = 1; notices <= 2; ++notices) {
    watched.notice = true;
    watched.wait_for_looks(4);
    EXPECT_EQ(watched.acts, notices);
    watched.notice = false;
    watched.wait_for_looks(2);
  }
  EXPECT_EQ(watched.acts, 2);
}

TEST(NoticeWatch, LeavesANoticeAloneThatHasNotStoodForLong) {
  Watched watched;
  const NoticeWatch watch = watched.watch(std::chrono::hours(1));
  watched.notice = true;
  watched.wait_for_looks(4);
  EXPECT_EQ(watched.acts, 0);
}

// How often a run tells how far it is.

TEST(NewsInterval, ComesOftenAtFirstAndEveryMinuteLater) {
  EXPECT_EQ(news_interval(0s), 5s);
  EXPECT_EQ(news_interval(50s), 5s);
  EXPECT_EQ(news_interval(200s), 20s);
  EXPECT_EQ(news_interval(600s), 60s);
  EXPECT_EQ(news_interval(24h * 30), 60s);
}

}  // namespace
}  // namespace reprieve::handler
