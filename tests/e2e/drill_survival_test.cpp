// SPDX-License-Identifier: BSD-3-Clause
// `reprieve drill` with jobs that survive: what it measures, and that it leaves the user's checkpoints alone.

#include <fstream>

#include "drill_test.hpp"

namespace reprieve::test {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;

class DrillSurvival : public DrillTest {
 protected:
  static void expect_survival(const Result& result) {
    EXPECT_EQ(result.code, 0) << result.all();
    EXPECT_EQ(result.report["verdict"], "would_survive") << result.all();
    for (const char* id : {"arrived", "saved", "exit_code", "grace", "resumed", "first_save", "state"}) {
      EXPECT_EQ(result.grade(id), "good") << id << "\n" << result.all();
    }
  }
};

TEST_F(DrillSurvival, OfATrainingUnderReprieveRun) {
  Words command = mpirun("reprieve-trainer", {"--checkpoint-dir", checkpoints().string(), "--epochs", "100000",
                                              "--step-delay-ms", "20", "--checkpoint-every", "10"});
  command.insert(command.begin(), {program("reprieve"), "run", "--"});
  const Result result = drill({"--after-steps", "15"}, command);
  expect_survival(result);
  EXPECT_GE(result.report["notice"]["saved_step"], 15);
  EXPECT_EQ(result.report["second_start"]["restored_step"], result.report["notice"]["saved_step"]);
  EXPECT_GT(result.report["state"]["variables"], 10);
  expect_nothing_left();
}

TEST_F(DrillSurvival, OfABareMpirunThatGetsSigusr1) {
  const Result result = drill({"--after", "500ms"}, simulation(20));
  expect_survival(result);
  const auto& notice = result.report["notice"];
  EXPECT_EQ(notice["arrivals"].size(), 2U) << result.all();
  EXPECT_EQ(notice["restart_code"], 42);
  EXPECT_EQ(result.report["first_start"]["exit_code"], 42);
  EXPECT_THAT(notice["agreed_s"].get<double>(), AllOf(Ge(0), testing::Le(notice["saved_s"].get<double>())));
  EXPECT_LE(notice["saved_s"].get<double>(), notice["ended_s"].get<double>());
  EXPECT_GT(notice["longest_step_s"].get<double>(), 0);
  EXPECT_GT(result.report["grace_needed"]["signal_lead_s"], 30);
  EXPECT_FALSE(notice["rank_ends"].empty());
  expect_nothing_left();
}

TEST_F(DrillSurvival, WhenOneRankAloneIsTold) {
  const Result result = drill({"--as", "rank", "--after", "500ms"}, simulation(20));
  expect_survival(result);
  EXPECT_EQ(result.report["notice"]["arrivals"].size(), 1U) << result.all();
  EXPECT_EQ(result.report["notice"]["arrivals"][0]["rank"], 1);
}

TEST_F(DrillSurvival, OfAScriptThatBecomesItsLauncher) {
  expect_survival(drill({"--after", "500ms"}, in_shell("exec \"$@\"", simulation(20))));
}

TEST_F(DrillSurvival, LeavesTheUsersCheckpointsAlone) {
  Process earlier({mpirun("e2e_steps", {checkpoints().string(), "21", "1", "save_every=10"}), mpirun_environment()});
  ASSERT_EQ(earlier.wait(kLimit), 0) << earlier.err();
  const auto content = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(checkpoints())) {
      files[entry.path()] = read_text(entry.path());
    }
    return files;
  };
  const auto before = content();
  ASSERT_EQ(before.count(checkpoints() / "ckpt-20.h5"), 1U);
  const Result result = drill({"--after", "500ms"}, simulation(20, {"save_every=5"}));
  expect_survival(result);
  EXPECT_EQ(result.report["first_start"]["begins_at_step"], 0) << "the drill starts from nothing";
  EXPECT_EQ(content(), before);
}

TEST_F(DrillSurvival, KeepsItsCheckpointsIfAsked) {
  const Result result = drill({"--after", "500ms", "--keep"}, simulation(20));
  expect_survival(result);
  ASSERT_EQ(result.report["kept"].size(), 1U);
  const std::filesystem::path kept = result.report["kept"][0].get<std::string>();
  EXPECT_EQ(kept.parent_path(), checkpoints());
  const std::string name = "ckpt-" + result.report["notice"]["saved_step"].dump() + ".h5";
  EXPECT_TRUE(std::filesystem::exists(kept / name));
}

TEST_F(DrillSurvival, ReportForPeople) {
  Command tool{{program("reprieve"), "drill", "--after", "500ms", "--"}, mpirun_environment()};
  const Words command = simulation(20);
  tool.arguments.insert(tool.arguments.end(), command.begin(), command.end());
  Process process(tool);
  EXPECT_EQ(process.wait(kLimit), 0) << process.err();
  EXPECT_THAT(process.out(), AllOf(HasSubstr("the job would survive"), HasSubstr("#SBATCH --signal=B:URG@"),
                                   HasSubstr("ended with the restart code, 42")));
  EXPECT_THAT(process.out(), testing::Not(HasSubstr("\nstep 1\n"))) << "the program's output is no part of the report";
  EXPECT_THAT(process.err(), HasSubstr("step 1\n"));
}

}  // namespace
}  // namespace reprieve::test
