// SPDX-License-Identifier: BSD-3-Clause
// How often a run tells how far it is.

#include <gtest/gtest.h>

#include "handler/step_reporter.hpp"

namespace reprieve::handler {
namespace {

using namespace std::chrono_literals;

TEST(StepReporter, ComesOftenAtFirstAndEveryMinuteLater) {
  EXPECT_EQ(news_interval(0s), 5s);
  EXPECT_EQ(news_interval(50s), 5s);
  EXPECT_EQ(news_interval(200s), 20s);
  EXPECT_EQ(news_interval(600s), 60s);
  EXPECT_EQ(news_interval(24h * 30), 60s);
}

}  // namespace
}  // namespace reprieve::handler
