// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "core/values.hpp"

namespace reprieve::core {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Wall = std::chrono::system_clock;
using Time = Wall::time_point;

TEST(SaturatingTime, ConvertsWhatFits) {
  EXPECT_EQ(saturated<nanoseconds>(5s), 5s);
  EXPECT_EQ(saturated<seconds>(-1500ms), -1s);
  EXPECT_EQ(later(Time(10s), 5s), Time(15s));
  EXPECT_EQ(later(Time(10s), -15s), Time(-5s));
  EXPECT_EQ((between<milliseconds>(Time(10s), Time(7s))), -3s);
}

TEST(SaturatingTime, StopsAtTheEndsOfTheClock) {
  EXPECT_EQ(saturated<nanoseconds>(seconds::max()), nanoseconds::max());
  EXPECT_EQ(saturated<nanoseconds>(seconds::min()), nanoseconds::min());
  EXPECT_EQ(later(Time(10s), seconds::max()), Time::max());
  EXPECT_EQ(later(Time::max(), 1ns), Time::max());
  EXPECT_EQ(later(Time::min(), -1ns), Time::min());
  EXPECT_EQ(later(Time(-10s), seconds::min()), Time::min());
  EXPECT_EQ((between<nanoseconds>(Time::min(), Time::max())), nanoseconds::max());
  EXPECT_EQ((between<nanoseconds>(Time::max(), Time::min())), nanoseconds::min());
  EXPECT_EQ((between<nanoseconds>(Time::max(), Time::max())), 0ns);
  EXPECT_EQ(wall_clock_time(253'402'214'400), Time::max());  // the last day of the year 9999
  EXPECT_EQ(wall_clock_time(1'000), Time(1'000s));
}

}  // namespace
}  // namespace reprieve::core
