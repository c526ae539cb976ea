// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "handler/save_policy.hpp"

namespace reprieve::handler {
namespace {

using namespace std::chrono_literals;

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
}

TEST(GracePlanner, WhereThereIsRoomTheLastSaveIsNotDueYet) {
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

TEST(DurationHistory, EmptyIsZero) {
  EXPECT_TRUE(DurationHistory().empty());
  EXPECT_EQ(DurationHistory().upper_estimate(), 0s);
}

TEST(DurationHistory, WithFewValuesTheLongestCounts) {
  DurationHistory history;
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

}  // namespace
}  // namespace reprieve::handler
