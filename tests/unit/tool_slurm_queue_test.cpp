// SPDX-License-Identifier: BSD-3-Clause
// The user's jobs as Slurm lists them.

#include <gtest/gtest.h>

#include "status.hpp"

namespace reprieve::tool {
namespace {

TEST(SlurmQueue, ListsJobsAndTasksOfArrays) {
  const auto jobs = parse_squeue(
      "17|RUNNING|1-02:03:04|node[1-2]|heat\n"
      "15_[4-9]|PENDING|2:00:00|(Priority)|a name | with a bar\n");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].id, "17");
  EXPECT_EQ(jobs[0].state, "RUNNING");
  EXPECT_EQ(jobs[0].time_left, "1-02:03:04");
  EXPECT_EQ(jobs[0].where, "node[1-2]");
  EXPECT_EQ(jobs[0].name, "heat");
  EXPECT_EQ(jobs[1].id, "15_[4-9]");
  EXPECT_EQ(jobs[1].name, "a name | with a bar");
}

TEST(SlurmQueue, LeavesOutWhatIsNoJob) {
  EXPECT_TRUE(parse_squeue("").empty());
  EXPECT_TRUE(parse_squeue("slurm_load_jobs error: Unable to contact slurm controller\n\n").empty());
}

}  // namespace
}  // namespace reprieve::tool
