// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Tests that must fail, each in its way: they show that the test main notices.

#include <chrono>
#include <string>
#include <thread>

#include "support/mpi_test.hpp"

namespace {

using reprieve::test::world_rank;

TEST(Probe, FailsOnRank1) { EXPECT_NE(world_rank(), 1) << "on rank one"; }

TEST(Probe, FailsOnRank0) { EXPECT_NE(world_rank(), 0) << "on rank 0"; }

TEST(Probe, HangsOnRank1) {
  if (world_rank() == 1) {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

TEST(Probe, LeaksOnRank1) {
  for (int i = 0; i < 100 && world_rank() == 1; ++i) {  // a register may hold one, but not all of them
    static_cast<void>(new std::string(1000, static_cast<char>('a' + i % 26)));
  }
}

class ProbeSetUp : public testing::Test {
 protected:
  static void SetUpTestSuite() { EXPECT_NE(world_rank(), 2) << "in the set-up"; }
};

TEST_F(ProbeSetUp, PassesItself) {}

}  // namespace
