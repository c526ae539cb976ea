// SPDX-License-Identifier: BSD-3-Clause
// Launchers that do not end although nothing is left of what they launched.

#include <gtest/gtest.h>

#include "supervisor/processes.hpp"

namespace reprieve::supervisor {
namespace {

using namespace std::chrono_literals;

const HungLaunchers::Clock::time_point kStart{};
const std::vector<ProcessInfo> kWorking{{10, 1, "orterun"}, {11, 10, "train"}};
const std::vector<ProcessInfo> kAlone{{10, 1, "orterun"}};

TEST(HungLaunchers, OneThatLostItsChildrenLongAgo) {
  HungLaunchers launchers(30s);
  EXPECT_TRUE(launchers.find(kWorking, kStart).empty());
  EXPECT_TRUE(launchers.find(kAlone, kStart + 1s).empty());
  EXPECT_TRUE(launchers.find(kAlone, kStart + 29s).empty());
  const auto hung = launchers.find(kAlone, kStart + 30s);
  ASSERT_EQ(hung.size(), 1U);
  EXPECT_EQ(hung[0].pid, 10);
}

TEST(HungLaunchers, OneThatWasNeverSeenWithChildrenGetsMoreTime) {
  HungLaunchers launchers(30s);
  EXPECT_TRUE(launchers.find(kAlone, kStart).empty());
  EXPECT_TRUE(launchers.find(kAlone, kStart + 119s).empty());
  EXPECT_EQ(launchers.find(kAlone, kStart + 120s).size(), 1U);
}

TEST(HungLaunchers, NotOneThatWorksForLong) {
  HungLaunchers launchers(30s);
  EXPECT_TRUE(launchers.find(kWorking, kStart).empty());
  EXPECT_TRUE(launchers.find(kWorking, kStart + 1h).empty());
  EXPECT_TRUE(launchers.find(kAlone, kStart + 1h + 1s).empty());
}

TEST(HungLaunchers, NeitherSrunNorPrograms) {
  HungLaunchers launchers(30s);
  const std::vector<ProcessInfo> before{{10, 1, "srun"}, {11, 10, "srun"}, {20, 1, "bash"}, {21, 20, "sleep"}};
  EXPECT_TRUE(launchers.find(before, kStart).empty());
  EXPECT_TRUE(launchers.find({{10, 1, "srun"}, {20, 1, "bash"}}, kStart + 1h).empty());
}

}  // namespace
}  // namespace reprieve::supervisor
