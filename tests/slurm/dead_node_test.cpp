// SPDX-License-Identifier: BSD-3-Clause
// A node dies under a job that Slurm lets continue without it: `reprieve run` starts again on those that are left, in
// the same job.

#include <gmock/gmock.h>

#include <fstream>

#include "slurm/slurm_cluster.hpp"
#include "slurm/training_job.hpp"

namespace reprieve::test {
namespace {

using testing::HasSubstr;

/// A start is slow until there is a file `hurry`.
constexpr const char* kSlowUntilHurry =
    "export REPRIEVE_TERMINATION_SAVE_EVERY_STEPS=10\nSLURM_RESTART_COUNT=0\n[ ! -e hurry ] || SLURM_RESTART_COUNT=1";

class DeadNode : public ::testing::Test {
 protected:
  static SlurmOptions options() { return {.nodes = 3, .control_groups = true}; }

  void SetUp() override {
    REPRIEVE_NEEDS_SLURM(options());
    slurm_ = std::make_unique<SlurmCluster>(options());
  }

  [[nodiscard]] TrainingJob submit(const std::string& name, int nodes, const std::string& run_options) const {
    return {*slurm_, JobPlan{.name = name,
                             .script = with_run_options(script_of_tree("mpirun.sbatch"), run_options),
                             .training = {},
                             .arguments = {"--nodes=" + std::to_string(nodes), "--ntasks-per-node=2", "--no-kill"},
                             .program_start = kSlowUntilHurry}};
  }

  /// The second node of the job dies when the job has saved something.
  void kill_second_node(TrainingJob& job, const std::string& name) const {
    job.wait_until_training(0);
    job.wait_for_file("checkpoints/ckpt-10.h5");
    std::ofstream(slurm_->directory() / name / "hurry").flush();
    slurm_->kill_node(2);
  }

  /// The program has come to its end; Slurm waits for the dead node until somebody tells it that it is dead.
  void wait_for_end(TrainingJob& job) const {
    job.wait_until_said("finished: the program came to its end");
    slurm_->command({"scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=dead"});
    job.wait_until_ended("COMPLETED");
  }

  std::unique_ptr<SlurmCluster> slurm_;
};

TEST_F(DeadNode, ASpareTakesItsPlace) {
  const std::string digest = undisturbed_digest({}, 4);
  TrainingJob job = submit("spare", 3, "--spares 1 --host-timeout 20s");
  kill_second_node(job, "spare");
  wait_for_end(job);
  job.check_completed(digest, 0);
  EXPECT_THAT(job.output(), HasSubstr("ranks: 4, on n1, n2"));
  EXPECT_THAT(job.output(), HasSubstr("the host n2 is left out"));
  EXPECT_THAT(job.output(), HasSubstr("ranks: 4, on n1, n3"));
}

TEST_F(DeadNode, WithoutASpareTheJobContinuesWithFewerRanks) {
  TrainingJob job = submit("fewer", 2, "--min-ranks 2 --host-timeout 20s");
  kill_second_node(job, "fewer");
  wait_for_end(job);
  EXPECT_THAT(job.output(), HasSubstr("ranks: 2, on n1"));
  EXPECT_EQ(job.summary().at("world_size"), 2);
  EXPECT_EQ(job.summary().at("run_calls"), Training{}.steps);
}

}  // namespace
}  // namespace reprieve::test
