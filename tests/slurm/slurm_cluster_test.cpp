// SPDX-License-Identifier: BSD-3-Clause
// The private Slurm itself: what the other tests with Slurm rest on.

#include "slurm/slurm_cluster.hpp"

#include <gtest/gtest.h>

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

/// @param options  of a cluster that must hold the promises
void preempts_and_requeues(const SlurmOptions& options) {
  SlurmCluster slurm(options);
  const int job = slurm.submit({"--partition=low0", "--exclusive", "--output=%j.out", "--wrap",
                                "echo restart=${SLURM_RESTART_COUNT:-0} on=$(hostname -s);"
                                "[ -n \"$SLURM_RESTART_COUNT\" ] || exec sleep 1000"});
  const auto output = [&] { return read_text(slurm.directory() / (std::to_string(job) + ".out")); };
  // RUNNING is what Slurm has decided: the script may not have begun.
  ASSERT_TRUE(slurm.wait_for_state(job, "RUNNING", 60s)) << slurm.logs();
  ASSERT_TRUE(wait_until([&] { return output().find("restart=0 on=") != std::string::npos; }, 60s)) << slurm.logs();
  const std::string nodes = "--nodes=" + std::to_string(options.nodes);
  const int other =
      slurm.submit({"--partition=high", "--exclusive", nodes, "--output=%j.out", "--wrap", "srun sleep 1"});
  EXPECT_TRUE(slurm.wait_for_state(other, "COMPLETED", 120s)) << slurm.logs();
  EXPECT_TRUE(slurm.wait_for_state(job, "COMPLETED", 120s)) << slurm.logs();
  EXPECT_EQ(slurm.job(job)["Restarts"], "1");
  const std::string node = slurm.job(job)["NodeList"];
  EXPECT_NE(output().find("restart=1 on=" + node), std::string::npos) << output();
}

TEST(SlurmCluster, PreemptsAndRequeuesOnOneNode) {
  const SlurmOptions options;
  REPRIEVE_NEEDS_SLURM(options);
  preempts_and_requeues(options);
}

TEST(SlurmCluster, PreemptsAndRequeuesByControlGroup) {
  const SlurmOptions options{.control_groups = true};
  REPRIEVE_NEEDS_SLURM(options);
  preempts_and_requeues(options);
}

TEST(SlurmCluster, PreemptsAndRequeuesOnFourNodes) {
  const SlurmOptions options{.nodes = 4, .control_groups = true};
  REPRIEVE_NEEDS_SLURM(options);
  preempts_and_requeues(options);
}

}  // namespace
}  // namespace reprieve::test
