// SPDX-License-Identifier: BSD-3-Clause
// `reprieve drill` with setups that would lose work, or not continue: it must find each out, and say what to do.

#include <signal.h>

#include <fstream>

#include "drill_test.hpp"

namespace reprieve::test {
namespace {

using ::testing::HasSubstr;

class DrillLoss : public DrillTest {
 protected:
  /// The drill found this problem, and has an advice that says so.
  static void expect_problem(const Result& result, const std::string& id, const std::string& advice) {
    EXPECT_EQ(result.code, 1) << result.all();
    EXPECT_EQ(result.report["verdict"], "would_lose_work");
    EXPECT_EQ(result.grade(id), "problem") << id << "\n" << result.all();
    EXPECT_THAT(result.finding(id).value("advice", ""), HasSubstr(advice)) << result.all();
  }
};

TEST_F(DrillLoss, ProgramWithoutAHandlerDies) {
  const Result result = drill({"--ready-timeout", "1s"}, mpirun("e2e_careless", {"10"}));
  expect_problem(result, "no_handler", "PreemptionCheckpointHandler");
  EXPECT_EQ(result.report["first_start"]["exit_code"], 128 + SIGUSR1);
  EXPECT_TRUE(result.report["second_start"].is_null());
}

TEST_F(DrillLoss, ProgramThatIgnoresTheSignalIsKilled) {
  const Result result = drill({"--ready-timeout", "1s", "--grace", "1s"}, mpirun("e2e_careless", {"10", "ignore"}));
  expect_problem(result, "no_handler", "PreemptionCheckpointHandler");
  EXPECT_GE(result.report["notice"]["killed_s"], 1.0);
}

TEST_F(DrillLoss, StepsLongerThanTheGrace) {
  const Result result = drill({"--grace", "2s", "--after", "1s"}, simulation(60'000));
  expect_problem(result, "step_too_long", "save_checkpoint_if_preempted()");
  EXPECT_GE(result.report["notice"]["killed_s"], 2.0);
  EXPECT_THAT(result.finding("step_too_long")["text"], HasSubstr("there is no checkpoint"));
  expect_nothing_left();
}

TEST_F(DrillLoss, WhatAPeriodicCheckpointLeaves) {
  const Result result = drill({"--grace", "1s", "--after-steps", "2"}, simulation(4'000, {"save_every=1"}));
  // The steps are too long either way; the notice may by chance come right before the end of one.
  EXPECT_EQ(result.code, 1) << result.all();
  if (result.grade("step_too_long") == "problem") {
    EXPECT_THAT(result.finding("step_too_long")["text"], HasSubstr("back to the checkpoint of step "));
  } else {
    EXPECT_EQ(result.grade("grace_too_short"), "problem") << result.all();
  }
}

TEST_F(DrillLoss, GracePeriodOfTheProgramLongerThanThatOfThePlatform) {
  const Words training = mpirun(
      "reprieve-trainer", {"--checkpoint-dir", checkpoints().string(), "--epochs", "100000", "--step-delay-ms", "20"});
  const Result result = drill({"--grace", "6s", "--after", "500ms"},
                              in_shell("export REPRIEVE_TERMINATION_GRACE_PERIOD_S=60; exec \"$@\"", training));
  expect_problem(result, "grace_period", "termination.grace_period_s");
  EXPECT_EQ(result.grade("resumed"), "good") << "at its first save";
}

TEST_F(DrillLoss, PipelineThatSwallowsTheExitCode) {
  const Result result =
      drill({"--as", "rank", "--after", "500ms"}, in_shell("\"$@\" | cat; echo over", simulation(20)));
  expect_problem(result, "exit_code", "pipefail");
  EXPECT_EQ(result.report["first_start"]["exit_code"], 0);
  EXPECT_EQ(result.grade("resumed"), "good") << "the state is safe all the same";
}

TEST_F(DrillLoss, ShellThatDiesOfTheSignal) {
  const Result result = drill({"--after", "500ms"}, in_shell("\"$@\"; exit $?", simulation(20)));
  expect_problem(result, "script_died", "exec");
  EXPECT_EQ(result.report["first_start"]["exit_code"], 128 + SIGUSR1);
}

TEST_F(DrillLoss, LauncherThatKillsEarly) {
  // The ranks are in a step when mpirun, which got SIGTERM, kills them after 2 s of the 30 s.
  const Result result = drill({"--as", "term-to-launcher", "--after", "500ms"}, simulation(60'000));
  expect_problem(result, "killed_early", "reprieve run");
  EXPECT_FALSE(result.report["notice"]["rank_ends"].empty()) << result.all();
  EXPECT_TRUE(result.report["notice"]["killed_s"].is_null());
}

TEST_F(DrillLoss, LauncherThatReturnsAnotherCode) {
  const Result result = drill({"--as", "time-limit", "--after", "500ms"}, simulation(20));
  expect_problem(result, "exit_code", "reprieve run");
  EXPECT_EQ(result.report["first_start"]["exit_code"], 1);
}

TEST_F(DrillLoss, GraceTimeOfSlurmWithoutSrun) {
  const Result result = drill({"--as", "slurm-grace", "--grace", "500ms", "--after", "500ms"}, simulation(20));
  expect_problem(result, "no_notice_sent", "preempt_send_user_signal");
  EXPECT_EQ(result.report["notice"]["told"], "");
}

TEST_F(DrillLoss, OutputThatNobodyReads) {
  if (!has_open_mpi_4()) {
    GTEST_SKIP() << "this launcher kills the ranks 0.5 s after a SIGTERM: that is what the drill finds";
  }
  // mpirun that got SIGTERM reads no output any more; rank 0 fills what is between them, in one step.
  const Result result = drill({"--as", "term-to-launcher", "--after", "500ms"}, simulation(10, {"print=200000"}));
  expect_problem(result, "output_blocked", "to a file");
  EXPECT_EQ(result.report["notice"]["ranks_blocked_in_output"], nlohmann::json({0})) << result.all();
}

TEST_F(DrillLoss, DirectoryThatIsAnotherOneEachTime) {
  const Words words = mpirun("e2e_steps", {"$0-$$", "1000000", "20"});
  std::string script = "exec";
  for (const std::string& word : words) {
    script += " " + word;
  }
  const Result result = drill({"--after", "500ms"}, {"sh", "-c", script, checkpoints().string()});
  expect_problem(result, "directory_changed", "the same directory");
  expect_nothing_left();
}

TEST_F(DrillLoss, DirectoryThatIsEmptiedAtTheStart) {
  const Result result =
      drill({"--after", "500ms"}, in_shell("rm -rf " + checkpoints().string() + "; exec \"$@\"", simulation(20)));
  expect_problem(result, "begins_anew", "empty");
}

TEST_F(DrillLoss, DirectoryThatCannotBeMade) {
  std::ofstream(checkpoints()) << "not a directory";
  const Result result = drill({}, simulation(20));
  expect_problem(result, "start_failed", "repair this first");
  EXPECT_THAT(result.finding("start_failed")["text"], HasSubstr(checkpoints().string()));
  EXPECT_TRUE(result.report["notice"].is_null());
}

TEST_F(DrillLoss, StateThatIsInitialisedAfterTheRestore) {
  const Words command = simulation(20, {"late_init=1"});
  const Result result = drill({"--after", "500ms"}, command);
  expect_problem(result, "state_differs", "before it, not after");
  EXPECT_EQ(result.report["state"]["different"], nlohmann::json({"values"}));
  const Result meant = drill({"--after", "500ms", "--ignore", "values"}, command);
  EXPECT_EQ(meant.code, 0) << meant.all();
}

TEST_F(DrillLoss, StepThatFails) {
  const Result result = drill({"--after-steps", "1000"}, simulation(1, {"throw_at=30"}));
  expect_problem(result, "start_failed", "repair this first");
  EXPECT_THAT(result.finding("start_failed")["text"], HasSubstr("the pressure is negative"));
}

class DrillDoubt : public DrillTest {};

TEST_F(DrillDoubt, ProgramThatIsOverBeforeTheNotice) {
  const Result result = drill({}, mpirun("e2e_steps", {checkpoints().string(), "5", "1"}));
  EXPECT_EQ(result.code, 2) << result.all();
  EXPECT_EQ(result.grade("ended_early"), "unknown") << result.all();
  EXPECT_THAT(result.finding("ended_early")["advice"], HasSubstr("--after"));
}

TEST_F(DrillDoubt, CommandThatDoesNotExist) {
  Process process({{program("reprieve"), "drill", "--", "no-such-launcher"}});
  EXPECT_EQ(process.wait(kLimit), 2);
  EXPECT_THAT(process.err(), HasSubstr("cannot start no-such-launcher"));
}

TEST_F(DrillDoubt, NoCommand) {
  Process process({{program("reprieve"), "drill", "mpirun"}});
  EXPECT_EQ(process.wait(kLimit), 2);
  EXPECT_THAT(process.err(), HasSubstr("neither an option nor behind the --"));
}

TEST_F(DrillDoubt, InterruptedByTheUserLeavesNothing) {
  Command tool{{program("reprieve"), "drill", "--after", "1h", "--json", "--"}, mpirun_environment()};
  const Words command = simulation(20);
  tool.arguments.insert(tool.arguments.end(), command.begin(), command.end());
  Process process(tool);
  ASSERT_TRUE(wait_until([&] { return process.err().find("are ready") != std::string::npos; }, kLimit));
  process.send(SIGINT);
  EXPECT_EQ(process.wait(kLimit), 2);
  EXPECT_TRUE(process.wait_for_descendants(std::chrono::seconds(10)));
  expect_nothing_left();
}

}  // namespace
}  // namespace reprieve::test
