// SPDX-License-Identifier: BSD-3-Clause
// The error report that a run leaves beside its checkpoints, as the supervisor reads it.

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "supervisor/supervised_run.hpp"

namespace reprieve::supervisor {
namespace {

std::optional<std::string> message_in(const std::string& report) {
  std::istringstream stream(report);
  return message_of_error_report(stream, 1000);
}

TEST(ErrorReport, OfThisRunHasAMessage) {
  EXPECT_EQ(message_in(R"({"time_s": 1000.5, "message": "disk full", "rank": 3})"), "disk full");
}

TEST(ErrorReport, OfAnEarlierRunDoesNotCount) {
  EXPECT_EQ(message_in(R"({"time_s": 999.5, "message": "disk full"})"), std::nullopt);
}

/// Somebody else may have written the file, or half of it.
TEST(ErrorReport, WhateverElseItHoldsIsNone) {
  for (const std::string report :
       {"", "{", "[]", "17", "null", R"({"time_s": "1000.5", "message": "x"})", R"({"time_s": null, "message": "x"})",
        R"({"time_s": [2000], "message": "x"})", R"({"time_s": 2000, "message": 7})", R"({"time_s": 2000})",
        R"({"message": "x"})", "{\"time_s\": 2000, \"message\": \"\xff\"}"}) {
    EXPECT_EQ(message_in(report), std::nullopt) << report;
  }
}

}  // namespace
}  // namespace reprieve::supervisor
