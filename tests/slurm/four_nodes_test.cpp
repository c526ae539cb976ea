// SPDX-License-Identifier: BSD-3-Clause
// Jobs on several nodes are preempted and continue: on other nodes, and on another number of nodes.

#include <gtest/gtest.h>

#include <iostream>

#include "slurm/slurm_cluster.hpp"
#include "slurm/training_job.hpp"

namespace reprieve::test {
namespace {

constexpr int kRanksOfFourNodes = 4;  // two on each of two nodes
const Training kTraining{.slow_starts = 2};

/// Whether the life that has written the summary was restored.
bool has_restored(const TrainingJob& training) {
  try {
    return !training.summary().at("restored_from").is_null();
  } catch (const nlohmann::json::exception&) {
    return false;  // it is being written
  }
}

class FourNodes : public ::testing::Test {
 protected:
  struct Job {
    std::string name;
    int nodes, ranks;  ///< that it ends with
    TrainingJob training;
  };

  static SlurmOptions options() { return {.nodes = 4, .cpus = 16, .control_groups = true}; }

  void SetUp() override {
    REPRIEVE_NEEDS_SLURM(options());
    slurm_ = std::make_unique<SlurmCluster>(options());
  }

  void submit(const std::string& name, const std::string& launcher, int last_nodes, int last_ranks) {
    const JobPlan plan{name, script_of_tree(launcher + ".sbatch"), kTraining, {"--nodes=2", "--ntasks-per-node=2"}};
    jobs_.push_back({name, last_nodes, last_ranks, TrainingJob(*slurm_, plan)});
  }

  /// Takes nodes away from whatever runs there, until the job that this returns is cancelled.
  int take(const std::string& nodes) {
    for (Job& job : jobs_) {
      job.training.note_cause();
    }
    return slurm_->submit(
        {"--partition=high", "--exclusive", "--nodelist=" + nodes, "--output=/dev/null", "--wrap", "exec sleep 1000"});
  }
  void give_back(int taker) { slurm_->command({"scancel", std::to_string(taker)}); }

  void wait_until_requeued(int times) {
    for_all(all(), [=](TrainingJob& job) { job.wait_until_requeued(times); });
  }
  void wait_until_training(int start) {
    for_all(all(), [=](TrainingJob& job) { job.wait_until_training(start); });
  }
  void expect_nodes(const std::string& nodes) {
    for (Job& job : jobs_) {
      EXPECT_EQ(job.training.field("NodeList"), nodes) << job.name;
    }
  }

  std::vector<TrainingJob*> all() {
    std::vector<TrainingJob*> jobs;
    for (Job& job : jobs_) {
      jobs.push_back(&job.training);
    }
    return jobs;
  }

  std::unique_ptr<SlurmCluster> slurm_;
  std::vector<Job> jobs_;
};

TEST_F(FourNodes, JobsContinueElsewhere) {
  const std::string digest = undisturbed_digest(kTraining, kRanksOfFourNodes);
  submit("two_nodes_srun", "srun", 2, kRanksOfFourNodes);
  submit("two_nodes_mpirun", "mpirun", 2, kRanksOfFourNodes);
  // An old srun keeps the number that the job began with.
  submit("one_node_less_srun", "srun", 1, slurm_->remembers_grace() ? kRanksOfFourNodes / 2 : kRanksOfFourNodes);
  submit("one_node_less_mpirun", "mpirun", 1, kRanksOfFourNodes / 2);
  wait_until_training(0);
  expect_nodes("n[1-2]");

  const int first = take("n[1-2]");
  wait_until_requeued(1);
  wait_until_training(1);
  expect_nodes("n[3-4]");

  const int second = take("n[3-4]");
  wait_until_requeued(2);
  std::map<std::string, std::string> saved;
  for (const Job& job : jobs_) {
    // Slurm counts the restart while the second life still ends. Its summary says what it was restored from.
    ASSERT_TRUE(wait_until([&] { return has_restored(job.training); }, std::chrono::seconds(30))) << job.name;
    saved[job.name] = job.training.summary().at("shared_state_digest");
    if (job.nodes == 1) {
      slurm_->command({"scontrol", "update", "JobId=" + std::to_string(job.training.id()), "NumNodes=1", "NumTasks=2"});
    }
  }
  give_back(first);
  for (Job& job : jobs_) {
    job.training.wait_until_ended("COMPLETED");
    const nlohmann::json summary = job.training.summary();
    EXPECT_EQ(job.training.field("NumNodes"), std::to_string(job.nodes)) << job.name;
    EXPECT_EQ(summary.at("world_size"), job.ranks) << job.name;
    EXPECT_EQ(summary.at("run_calls"), kTraining.steps) << job.name;
    const std::string restored = summary.at("restored_shared_state_digest");
    // Where Slurm remembers a grace time it may have started the finished job once more.
    EXPECT_TRUE(restored == saved[job.name] ||
                (slurm_->remembers_grace() && restored == summary.at("shared_state_digest").get<std::string>()))
        << job.name << " restored " << restored << " and not " << saved[job.name];
    if (job.ranks == kRanksOfFourNodes) {
      EXPECT_EQ(summary.at("state_digest"), digest) << job.name;
    }
    for (const PreemptionFigures& figures : job.training.figures()) {
      std::cout << "[  FIGURES ] " << job.name << ": " << text_of(figures) << std::endl;
    }
  }
  give_back(second);
}

}  // namespace
}  // namespace reprieve::test
