// SPDX-License-Identifier: BSD-3-Clause
// The support library itself: what the other end-to-end tests rest on.

#include "support/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

TEST(Process, LeavesNothingBehind) {
  pid_t orphan = 0;
  {
    // A grandchild in another session, whose parent has ended.
    Process process({{"sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' & exit 0"}});
    EXPECT_EQ(process.wait(30s), 0);
    ASSERT_TRUE(wait_until([&] { return process.out().ends_with('\n'); }, 30s));
    orphan = std::stoi(process.out());
    // While it becomes `sleep`, the kernel shows no environment of it.
    EXPECT_TRUE(wait_until([&] { return process.descendants() == std::vector<pid_t>{orphan}; }, 30s));
  }
  // Its parent may leave it as a zombie, which has no command line.
  EXPECT_EQ(read_text("/proc/" + std::to_string(orphan) + "/cmdline"), "");
}

TEST(Mpirun, FindsAndSignalsRanks) {
  Mpirun job({.ranks = 3, .arguments = {"/bin/sleep", "1000"}, .rank_prefix = {"nice", "-n", "1"}});
  ASSERT_TRUE(job.wait_for_ranks(60s)) << job.err();
  const auto ranks = job.ranks();
  ASSERT_EQ(ranks.size(), 3U);
  EXPECT_EQ(ranks.begin()->first, 0);
  EXPECT_EQ(ranks.rbegin()->first, 2);
  EXPECT_FALSE(job.send_to_rank(3, SIGKILL));
  EXPECT_TRUE(job.send_to_rank(1, SIGKILL));
  EXPECT_EQ(job.wait(60s), 128 + SIGKILL) << job.err();
}

}  // namespace
}  // namespace reprieve::test
