// SPDX-License-Identifier: BSD-3-Clause
// Jobs of several nodes in Slurm, and `reprieve drill` in a job.

#include <gmock/gmock.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "slurm/slurm_cluster.hpp"
#include "slurm/training_job.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

// Jobs on several nodes are preempted and continue: on other nodes, and on another number of nodes.

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

// A node dies under a job that Slurm lets continue without it: `reprieve run` starts again on those that are left, in
// the same job.

using testing::AllOf;
using testing::HasSubstr;

/// A start is slow until there is a file `hurry`.
constexpr const char* kSlowUntilHurry =
    "export REPRIEVE_TERMINATION_SAVE_EVERY_STEPS=10\nSLURM_RESTART_COUNT=0\n[ ! -e hurry ] || SLURM_RESTART_COUNT=1";

class DeadNode : public ::testing::Test {
 protected:
  static SlurmOptions options() { return {.nodes = 5, .control_groups = true}; }

  void SetUp() override {
    REPRIEVE_NEEDS_SLURM(options());
    slurm_ = std::make_unique<SlurmCluster>(options());
  }

  [[nodiscard]] TrainingJob submit(const std::string& name, const std::vector<std::string>& nodes,
                                   const std::string& run_options) const {
    return {*slurm_,
            JobPlan{.name = name,
                    .script = with_run_options(script_of_tree("mpirun.sbatch"), run_options + " --host-timeout 20s"),
                    .training = {},
                    .arguments = joined(nodes, {"--ntasks-per-node=2", "--no-kill"}),
                    .program_start = kSlowUntilHurry}};
  }

  /// A node of the job dies when the job has saved something.
  void kill_node(TrainingJob& job, const std::string& name, int node) const {
    job.wait_until_training(0);
    job.wait_for_file("checkpoints/ckpt-10.h5");
    std::ofstream(slurm_->directory() / name / "hurry").flush();
    slurm_->kill_node(node);
  }

  /// The program has come to its end; Slurm waits for the dead node until somebody tells it that it is dead.
  void wait_for_end(TrainingJob& job, const std::string& node) const {
    job.wait_until_said("finished: the program came to its end");
    slurm_->command({"scontrol", "update", "NodeName=" + node, "State=DOWN", "Reason=dead"});
    job.wait_until_ended("COMPLETED");
  }

  std::unique_ptr<SlurmCluster> slurm_;
};

TEST_F(DeadNode, ASpareTakesItsPlaceOrTheJobContinuesWithFewerRanks) {
  const std::string digest = undisturbed_digest({}, 4);
  TrainingJob spare = submit("spare", {"--nodes=3", "--nodelist=n[1-3]"}, "--spares 1");
  TrainingJob fewer = submit("fewer", {"--nodes=2", "--nodelist=n[4-5]"}, "--min-ranks 2");
  kill_node(spare, "spare", 2);
  kill_node(fewer, "fewer", 5);
  wait_for_end(spare, "n2");
  spare.check_completed(digest, 0);
  EXPECT_THAT(spare.output(), AllOf(HasSubstr("ranks: 4, on n1, n2"), HasSubstr("the host n2 is left out"),
                                    HasSubstr("ranks: 4, on n1, n3")));
  wait_for_end(fewer, "n5");
  EXPECT_THAT(fewer.output(), HasSubstr("ranks: 2, on n4"));
  EXPECT_EQ(fewer.summary().at("world_size"), 2);
  EXPECT_EQ(fewer.summary().at("run_calls"), Training{}.steps);
}

// `reprieve drill` inside of a job, as a user would have it in an allocation.

using Json = nlohmann::json;
using std::chrono::seconds;

class SlurmDrill : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (SlurmCluster::obstacle({}).empty()) {
      slurm_ = std::make_unique<SlurmCluster>();
    }
  }
  static void TearDownTestSuite() { slurm_.reset(); }
  void SetUp() override { REPRIEVE_NEEDS_SLURM(SlurmOptions{}); }

  /// Drills a launcher with the trainer on 2 ranks, in a job of its own; the report.
  /// @param launcher  options of the drill, "--", and the launcher
  Json drill(const std::string& launcher) {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    const auto directory = slurm_->directory() / name;
    std::filesystem::create_directories(directory);
    const std::string training =
        program("reprieve-trainer") + " --epochs 100000 --steps-per-epoch 5 --step-delay-ms 50";
    std::ofstream(directory / "job.sbatch")
        << "#!/bin/bash\nPATH=$PATH:" << std::filesystem::path(program("reprieve")).parent_path().string()
        << "\nreprieve drill --json " << launcher << " " << training << " > report.json\n";
    const int job = slurm_->submit({"--chdir=" + directory.string(), "--ntasks=2", "--output=output", "--requeue",
                                    (directory / "job.sbatch").string()});
    const auto has_ended = [](const JobFields& fields) {
      return fields.contains("JobState") && (fields.at("JobState") == "COMPLETED" || fields.at("JobState") == "FAILED");
    };
    EXPECT_TRUE(slurm_->wait_for_job(job, has_ended, seconds(240))) << slurm_->logs_of(job);
    EXPECT_EQ(slurm_->job(job)["Restarts"], "0") << "a drill puts no job back into the queue";
    output_ = read_text(directory / "output");
    const Json report = Json::parse(read_text(directory / "report.json"), nullptr, false);
    EXPECT_TRUE(report.is_object()) << output_;
    return report;
  }

  static std::string grade(const Json& report, const std::string& id) {
    for (const Json& finding : report["findings"]) {
      if (finding["id"] == id) {
        return finding["grade"];
      }
    }
    return "none";
  }

  void expect_survival(const Json& report) const {
    EXPECT_EQ(report["verdict"], "would_survive") << report.dump(2) << output_;
    for (const char* id : {"arrived", "saved", "exit_code", "resumed", "state"}) {
      EXPECT_EQ(grade(report, id), "good") << id << report.dump(2) << output_;
    }
  }

  static inline std::unique_ptr<SlurmCluster> slurm_;
  std::string output_;  ///< of the job
};

TEST_F(SlurmDrill, SrunPassesSigusr1On) {
  const Json report = drill("-- srun --mpi=pmix");
  expect_survival(report);
  EXPECT_GE(report["notice"]["arrivals"].size(), 1U) << "the ranks may have left before the other one was told";
}

TEST_F(SlurmDrill, GraceTimeReachesTheTasksOfSrun) {
  const Json report = drill("--as slurm-grace -- srun --mpi=pmix");
  expect_survival(report);
  EXPECT_EQ(report["notice"]["sent"], "SIGTERM to the 2 tasks of srun on this node");
}

TEST_F(SlurmDrill, SigtermToSrunKillsTheRanks) {
  const Json report = drill("--as term-to-launcher -- srun --mpi=pmix");
  EXPECT_EQ(grade(report, "killed_early"), "problem") << report.dump(2) << output_;
  EXPECT_EQ(report["notice"]["rank_ends"].size(), 2U);
}

TEST_F(SlurmDrill, SupervisedJobSurvivesAndStaysWhereItIs) {
  expect_survival(drill("-- reprieve run --slurm -- srun --mpi=pmix"));
}

TEST_F(SlurmDrill, GraceTimeNotifiesNobodyUnderMpirun) {
  const Json report = drill("--as slurm-grace --grace 1s -- mpirun");
  EXPECT_EQ(grade(report, "no_notice_sent"), "problem") << report.dump(2) << output_;
}

}  // namespace
}  // namespace reprieve::test
