// SPDX-License-Identifier: BSD-3-Clause
// `reprieve drill` inside of a job, as a user would have it in an allocation.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "slurm/slurm_cluster.hpp"

namespace reprieve::test {
namespace {

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
  EXPECT_EQ(report["notice"]["told"], "SIGTERM to the 2 tasks of srun on this node");
}

TEST_F(SlurmDrill, SigtermToSrunKillsTheRanks) {
  const Json report = drill("--as term-to-launcher -- srun --mpi=pmix");
  EXPECT_EQ(grade(report, "killed_early"), "problem") << report.dump(2) << output_;
  EXPECT_EQ(report["notice"]["rank_ends"].size(), 2U);
}

TEST_F(SlurmDrill, SupervisedJobSurvivesAndStaysWhereItIs) {
  expect_survival(drill("-- reprieve run --slurm -- srun --mpi=pmix"));
}

TEST_F(SlurmDrill, GraceTimeTellsNobodyUnderMpirun) {
  const Json report = drill("--as slurm-grace --grace 1s -- mpirun");
  EXPECT_EQ(grade(report, "no_notice_sent"), "problem") << report.dump(2) << output_;
}

}  // namespace
}  // namespace reprieve::test
