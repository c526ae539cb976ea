// A job on several nodes is preempted and goes on: on other nodes, and on another number of nodes.

#include <gtest/gtest.h>

#include <iostream>

#include "slurm/slurm_cluster.hpp"
#include "slurm/training_job.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 4;
const Training kTraining{.epochs = 20, .steps_per_epoch = 10, .step_delay_ms = 100};

class FourNodes : public ::testing::TestWithParam<std::string> {
 protected:
  static SlurmOptions options() { return {.nodes = 4, .cpus = kRanks, .control_groups = true}; }

  static void SetUpTestSuite() {
    if (SlurmCluster::obstacle(options()).empty()) {
      slurm_ = std::make_unique<SlurmCluster>(options());
      digest_ = undisturbed_digest(kTraining, kRanks);
    }
  }
  static void TearDownTestSuite() { slurm_.reset(); }
  void SetUp() override { REPRIEVE_NEEDS_SLURM(options()); }

  /// Takes nodes away from whatever runs there, until the job that this returns is cancelled.
  static int take(const std::string& nodes) {
    return slurm_->submit(
        {"--partition=high", "--exclusive", "--nodelist=" + nodes, "--output=/dev/null", "--wrap", "exec sleep 1000"});
  }
  static std::string nodes_of(const TrainingJob& job) { return slurm_->job(job.id()).at("NodeList"); }

  static inline std::unique_ptr<SlurmCluster> slurm_;
  static inline std::string digest_;
};

TEST_P(FourNodes, GoesOnElsewhere) {
  TrainingJob job(*slurm_, GetParam() + "_elsewhere", GetParam() + ".sbatch", kTraining,
                  {"--partition=low", "--nodes=1-2", "--ntasks-per-node=" + std::to_string(kRanks),
                   "--ntasks=" + std::to_string(kRanks), "--time=10"});
  job.wait_until_training(0);
  ASSERT_EQ(nodes_of(job), "n[1-2]");

  job.note_cause();
  const int first = take("n[1-2]");
  job.wait_until_requeued(1);
  job.wait_until_training(1);
  EXPECT_EQ(nodes_of(job), "n[3-4]");

  job.note_cause();
  const int second = take("n[3-4]");
  job.wait_until_requeued(2);
  const int third = take("n1");
  slurm_->command({"scancel", std::to_string(first)});
  job.wait_until_training(2);
  EXPECT_EQ(nodes_of(job), "n2");

  job.wait_until_ended("COMPLETED");
  slurm_->command({"scancel", std::to_string(second), std::to_string(third)});
  for (const PreemptionFigures& figures : job.figures()) {
    std::cout << "[  FIGURES ] " << GetParam() << " on several nodes: " << figures.text() << std::endl;
  }
  EXPECT_EQ(job.summary().at("world_size"), kRanks);
  EXPECT_EQ(job.summary().at("state_digest"), digest_);
}

INSTANTIATE_TEST_SUITE_P(Slurm, FourNodes, ::testing::Values("srun", "mpirun"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace reprieve::test
