// SPDX-License-Identifier: BSD-3-Clause
// `reprieve drill` with setups that would lose work, or not continue: it must find each out, and say what to do.

#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/json_page.hpp"
#include "support/process.hpp"

namespace reprieve::test {
namespace {

using ::testing::HasSubstr;

class DrillTest : public ::testing::Test {
 protected:
  using Json = nlohmann::json;
  using Words = std::vector<std::string>;

  /// Longer than anything takes on an overloaded machine.
  static constexpr auto kLimit = std::chrono::seconds(180);
  static constexpr int kRanks = 2;

  struct Result {
    int code = -1;
    Json report;  ///< null if there was none
    std::string out;
    std::string err;

    /// The finding of this name, or null.
    [[nodiscard]] Json finding(const std::string& id) const {
      const Json findings = report.is_object() ? report["findings"] : Json::array();
      const auto found =
          std::find_if(findings.begin(), findings.end(), [&](const Json& each) { return each["id"] == id; });
      return found == findings.end() ? Json() : *found;
    }
    /// "good", "problem", ...; "none" if there is no such finding.
    [[nodiscard]] std::string grade(const std::string& id) const {
      const Json found = finding(id);
      return found.is_null() ? "none" : found["grade"].get<std::string>();
    }
    [[nodiscard]] std::string all() const { return out + err; }
  };

  /// A drill of a command, with --json or not.
  [[nodiscard]] Command drill_command(const Words& options, const Words& command) const {
    return {joined(joined(joined({program("reprieve"), "drill"}, options), {"--"}), command), mpirun_environment(),
            directory_.path()};
  }

  /// Drills a command, with --json.
  [[nodiscard]] Result drill(const Words& options, const Words& command) const {
    Command tool = drill_command(joined({"--json"}, options), command);
    tool.environment["OMPI_MCA_btl_vader_backing_directory"] = shared_memory_.path().string();
    Process process(tool);
    Result result;
    result.code = process.wait(kLimit).value_or(-1);
    result.out = process.out();
    result.err = process.err();
    result.report = Json::parse(result.out, nullptr, false);
    EXPECT_TRUE(result.report.is_object()) << result.all();
    JsonPage().expect("drill", result.report);
    EXPECT_TRUE(process.wait_for_descendants(std::chrono::seconds(10))) << result.all();
    return result;
  }

  [[nodiscard]] static Words mpirun(const Words& words) {
    return joined({"mpirun", "--oversubscribe", "--bind-to", "none", "-n", std::to_string(kRanks)}, words);
  }
  /// The words of an mpirun with a program of this build.
  [[nodiscard]] static Words mpirun(const std::string& name, const Words& arguments) {
    return mpirun(joined({program(name)}, arguments));
  }

  /// An endless simulation (programs/field.cpp) whose steps last @p step_ms.
  [[nodiscard]] Words simulation(int step_ms, const Words& faults = {}) const {
    return mpirun("e2e_field", joined({checkpoints().string(), "1000000", std::to_string(step_ms)}, faults));
  }

  /// One that comes to its end.
  [[nodiscard]] Words short_simulation(const Words& faults) const {
    return mpirun("e2e_field", joined({checkpoints().string(), "60", "40"}, faults));
  }

  /// `sh -c script`, in which "$@" is the command.
  [[nodiscard]] static Words in_shell(const std::string& script, const Words& command) {
    return joined({"sh", "-c", script, "sh"}, command);
  }

  /// The drill leaves neither processes nor checkpoints behind.
  void expect_nothing_left() const { EXPECT_TRUE(std::filesystem::is_empty(directory_.path())); }

  /// The user ends a drill as soon as @p is_far.
  void expect_nothing_after_ctrl_c(const Command& tool, const std::function<bool(const Process&)>& is_far) const {
    Process process(tool);
    ASSERT_TRUE(wait_until([&] { return is_far(process); }, kLimit)) << process.err();
    process.send(SIGINT);
    EXPECT_EQ(process.wait(kLimit), 2);
    EXPECT_TRUE(process.wait_for_descendants(std::chrono::seconds(10)));
    expect_nothing_left();
  }

  [[nodiscard]] std::filesystem::path checkpoints() const { return directory_ / "checkpoints"; }

  TemporaryDirectory directory_;
  TemporaryDirectory shared_memory_{"/dev/shm"};
};

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
  const Result result = drill({"--ready-timeout", "1s"}, mpirun({"sleep", "1000"}));
  expect_problem(result, "no_handler", "PreemptionCheckpointHandler");
  EXPECT_EQ(result.report["first_start"]["exit_code"], 128 + SIGUSR1);
  EXPECT_TRUE(result.report["second_start"].is_null());
}

TEST_F(DrillLoss, ProgramThatIgnoresTheSignalIsKilled) {
  const Result result =
      drill({"--ready-timeout", "1s", "--grace", "1s"}, mpirun({"sh", "-c", "trap '' TERM USR1; sleep 1000"}));
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

/// What the steps do not read, a replay does not see.
TEST_F(DrillLoss, OutputThatIsNotInTheState) {
  const Words options{"--after-steps", "5", "--to-end", "--compare", "series.txt"};
  const Result result = drill(options, short_simulation({"series=series.txt", "forgets=1"}));
  expect_problem(result, "output_differs", "register what the program gathers");
  EXPECT_EQ(result.grade("resumed"), "good");
  EXPECT_FALSE(result.report["to_end"]["files"][0]["equal"]);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "series.txt.resumed"));
  std::filesystem::remove(directory_ / "series.txt");
  std::filesystem::remove(directory_ / "series.txt.resumed");
  const Result meant =
      drill(joined(options, {"--compare-with", "test -s"}), short_simulation({"series=series.txt", "forgets=1"}));
  expect_problem(meant, "output_differs", "register what the program gathers");
  EXPECT_THAT(meant.finding("output_differs").value("text", ""), HasSubstr("test -s series.txt series.txt.resumed"));
}

TEST_F(DrillTest, OutputThatIsInTheState) {
  const Result result = drill({"--after-steps", "5", "--to-end", "--compare", "series.txt", "--compare-with", "cmp"},
                              short_simulation({"series=series.txt"}));
  EXPECT_EQ(result.code, 0) << result.all();
  EXPECT_EQ(result.grade("output"), "good") << result.all();
  EXPECT_FALSE(std::filesystem::exists(directory_ / "series.txt.resumed"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "series.txt"));
  Process again(drill_command({"--to-end", "--compare", "series.txt"}, simulation(20)));
  EXPECT_EQ(again.wait(kLimit), 2);
  EXPECT_THAT(again.err(), HasSubstr("series.txt is there already: move it away"));
}

TEST_F(DrillTest, MemoryThatNoVariableCovers) {
  const Result hides = drill({"--after-steps", "5", "--memory"}, simulation(20, {"hidden=1"}));
  EXPECT_EQ(hides.code, 0) << hides.all();
  EXPECT_EQ(hides.grade("uncovered_memory"), "warning") << hides.all();
  EXPECT_THAT(hides.finding("uncovered_memory").value("text", ""),
              AllOf(HasSubstr("hidden_counts (4096 bytes)"), HasSubstr("a heap block of 320")));
  EXPECT_THAT(hides.finding("unchanged_variables").value("text", ""), HasSubstr(" calm"));
  const Result knows = drill({"--after-steps", "5", "--memory"}, simulation(20));
  EXPECT_EQ(knows.grade("memory"), "good") << knows.all();
  expect_nothing_left();
}

TEST_F(DrillTest, DeathOfARank) {
  const Result ends = drill({"--after-steps", "5", "--kill-rank"}, simulation(20));
  EXPECT_EQ(ends.code, 0) << ends.all();
  EXPECT_EQ(ends.grade("job_ends_at_death"), "warning") << ends.all();
  EXPECT_THAT(ends.finding("job_ends_at_death").value("text", ""), HasSubstr("rank 1 was killed at step"));
  EXPECT_TRUE(ends.report["death"]["recovery_s"].is_null());
  expect_nothing_left();
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
  EXPECT_EQ(result.report["notice"]["sent"], "");
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
  const Words words = mpirun("e2e_field", {"$0-$$", "1000000", "20"});
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

class DrillDoubt : public DrillTest {};

TEST_F(DrillDoubt, ProgramThatIsOverBeforeTheNotice) {
  const Result result = drill({}, mpirun("e2e_field", {checkpoints().string(), "5", "1"}));
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
  expect_nothing_after_ctrl_c(drill_command({"--after", "1h", "--json"}, simulation(20)), [](const Process& process) {
    return process.err().find("are ready") != std::string::npos;
  });
}

// `reprieve drill` with jobs that survive: what it measures, and that it leaves the user's checkpoints alone.

using ::testing::AllOf;
using ::testing::Ge;

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

TEST_F(DrillSurvival, WhenOneRankAloneIsNotified) {
  const Result result = drill({"--as", "rank", "--after", "500ms"}, simulation(20));
  expect_survival(result);
  EXPECT_EQ(result.report["notice"]["arrivals"].size(), 1U) << result.all();
  EXPECT_EQ(result.report["notice"]["arrivals"][0]["rank"], 1);
}

TEST_F(DrillSurvival, OfAScriptThatBecomesItsLauncher) {
  expect_survival(drill({"--after", "500ms"}, in_shell("exec \"$@\"", simulation(20))));
}

TEST_F(DrillSurvival, LeavesTheUsersCheckpointsAlone) {
  Process earlier({mpirun("e2e_field", {checkpoints().string(), "21", "1", "save_every=10"}), mpirun_environment()});
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
  Process process(drill_command({"--after", "500ms"}, simulation(20)));
  EXPECT_EQ(process.wait(kLimit), 0) << process.err();
  EXPECT_THAT(process.out(), AllOf(HasSubstr("the job would survive"), HasSubstr("#SBATCH --signal=B:URG@"),
                                   HasSubstr("ended with the restart code, 42")));
  EXPECT_THAT(process.out(), testing::Not(HasSubstr("\nstep 1\n"))) << "the program's output is no part of the report";
  EXPECT_THAT(process.err(), HasSubstr("step 1\n"));
}

// `reprieve drill --replay`: it must find what a program forgot to register, and nothing where nothing is missing.

class DrillReplay : public DrillTest {
 protected:
  /// A field with a fault or without (e2e/programs/field.cpp).
  [[nodiscard]] Words field(const Words& faults, int steps = 1'000'000) const {
    return mpirun("e2e_field", joined({checkpoints().string(), std::to_string(steps), "10", "save_every=3"}, faults));
  }

  [[nodiscard]] Words heat() const {
    return mpirun("reprieve-heat", {"--checkpoint-dir", checkpoints().string(), "--grid", "12,12,12", "--steps",
                                    "1000000", "--step-delay-ms", "10", "--xdmf", "none"});
  }

  void expect_way(const Result& result, const std::string& words) const {
    EXPECT_EQ(result.code, 0) << result.all();
    EXPECT_EQ(result.grade("replay"), "good") << result.all();
    EXPECT_THAT(result.finding("replay")["text"], HasSubstr(words));
    expect_nothing_left();
  }
};

TEST_F(DrillReplay, FindsGhostCellsThatAreNotRegistered) {
  const Result without = drill({"--after-steps", "20"}, field({"lag=1"}));
  EXPECT_EQ(without.code, 0) << "what is registered comes back\n" << without.all();
  const Result result = drill({"--after-steps", "20", "--replay", "4"}, field({"lag=1"}));
  EXPECT_EQ(result.code, 1) << result.all();
  EXPECT_EQ(result.grade("replay_differs"), "problem") << result.all();
  EXPECT_THAT(result.finding("replay_differs")["text"], HasSubstr("after 4 steps, at step "));
  EXPECT_THAT(result.finding("replay_differs")["text"], HasSubstr("values differs first at element [0] ("));
  EXPECT_THAT(result.finding("replay_differs")["advice"], HasSubstr("ghost layers"));
  const auto& replay = result.report["replay"];
  EXPECT_EQ(replay["from_step"], result.report["notice"]["saved_step"]);
  EXPECT_EQ(replay["resumed"]["restored_step"], replay["from_step"]);
  EXPECT_EQ(replay["undisturbed"]["begins_at_step"], 0);
  EXPECT_EQ(replay["resumed"]["compared"]["different"], nlohmann::json({"values"}));
  expect_nothing_left();
}

TEST_F(DrillReplay, OnAnotherNumberOfRanks) {
  const Result result = drill({"--after-steps", "15", "--replay", "5", "--ranks", "3"}, heat());
  expect_way(result, "the run that resumed on 3 ranks instead of 2 goes the way of an undisturbed one");
  EXPECT_EQ(result.report["replay"]["resumed"]["ranks"], 3);
  EXPECT_EQ(result.report["replay"]["undisturbed"]["ranks"], 2);
}

TEST_F(DrillReplay, RoundingOnAnotherNumberOfRanksIsNoProblem) {
  const Result result = drill({"--after-steps", "20", "--replay", "4", "--ranks", "3"}, field({"rounding=1"}));
  EXPECT_EQ(result.code, 0) << result.all();
  ASSERT_EQ(result.grade("replay_rounding"), "warning") << result.all();
  EXPECT_EQ(result.report["replay"]["resumed"]["compared"]["differences"][0]["kind"], "rounding");
}

TEST_F(DrillReplay, CannotTellOfAProgramThatIsAnotherOneEachTime) {
  const Result result = drill({"--after-steps", "20", "--replay", "4"}, field({"random=1"}));
  EXPECT_EQ(result.code, 2) << result.all();
  EXPECT_EQ(result.grade("not_deterministic"), "unknown") << result.all();
  EXPECT_THAT(result.finding("not_deterministic")["text"], HasSubstr("values differs first at element [0] ("));
  EXPECT_THAT(result.finding("not_deterministic")["advice"], HasSubstr("--ignore"));
  expect_nothing_left();
}

TEST_F(DrillReplay, ComparesAtTheEndOfAProgramThatIsTooShort) {
  const Result result = drill({"--after-steps", "20", "--replay", "100000"}, field({}, 200));
  expect_way(result, "at step 200 (the end of the program, before the 100000 steps asked for)");
}

TEST_F(DrillReplay, CannotTellAtAnEndWithoutACheckpoint) {
  const Result result = drill({"--after-steps", "20", "--replay", "100000"}, field({"no_finish=1"}, 151));
  EXPECT_EQ(result.code, 2) << result.all();
  EXPECT_EQ(result.grade("replay_too_long"), "unknown") << result.all();
  EXPECT_THAT(result.finding("replay_too_long")["text"], HasSubstr("the program ends at step 151"));
}

TEST_F(DrillReplay, KeepsTheCheckpointsOfAllRuns) {
  const Result result = drill({"--after-steps", "20", "--replay", "7", "--keep"}, field({}));
  EXPECT_EQ(result.code, 0) << result.all();
  EXPECT_THAT(result.finding("replay")["text"],
              HasSubstr("the resumed run goes the way of an undisturbed one: after 7 steps"));
  ASSERT_EQ(result.report["kept"].size(), 2U);
  const std::uint64_t step = result.report["replay"]["from_step"];
  for (const nlohmann::json& each : result.report["kept"]) {
    const std::filesystem::path kept = each.get<std::string>();
    EXPECT_TRUE(std::filesystem::exists(kept / ("ckpt-" + std::to_string(step + 7) + ".h5"))) << kept;
  }
}

TEST_F(DrillReplay, RanksNeedALauncherWithANumber) {
  for (const Words& command : {in_shell("exec \"$@\"", {"true"}), Words{"mpirun", "true", "-n", "2"}}) {
    Process process(drill_command({"--replay", "1", "--ranks", "3"}, command));
    EXPECT_EQ(process.wait(kLimit), 2);
    EXPECT_THAT(process.err(), HasSubstr("-np, --np or --ntasks of mpirun"));
  }
  Process alone({{program("reprieve"), "drill", "--ranks", "3", "--", "mpirun", "-n", "2", "true"}});
  EXPECT_EQ(alone.wait(kLimit), 2);
  EXPECT_THAT(alone.err(), HasSubstr("--replay"));
}

TEST_F(DrillReplay, InterruptedByTheUserLeavesNothing) {
  const auto has_undisturbed_run = [&](const Process&) {
    if (!std::filesystem::exists(checkpoints())) {
      return false;
    }
    const std::filesystem::directory_iterator drills(checkpoints());
    return std::distance(begin(drills), end(drills)) == 2;
  };
  expect_nothing_after_ctrl_c(drill_command({"--after", "100ms", "--replay", "1000000", "--json"}, field({})),
                              has_undisturbed_run);
}

}  // namespace
}  // namespace reprieve::test
