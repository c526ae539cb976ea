// SPDX-License-Identifier: BSD-3-Clause
// `reprieve drill --replay`: it must find what a program forgot to register, and nothing where nothing is missing.

#include <signal.h>

#include "drill_test.hpp"

namespace reprieve::test {
namespace {

using ::testing::HasSubstr;

class DrillReplay : public DrillTest {
 protected:
  /// A ring of cells, with a fault or without.
  [[nodiscard]] Words ring(const std::string& fault, int steps = 1'000'000) const {
    Words arguments{checkpoints().string(), std::to_string(steps), "10"};
    if (!fault.empty()) {
      arguments.push_back(fault);
    }
    return mpirun("e2e_ghosts", arguments);
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
  const Result without = drill({"--after-steps", "20"}, ring("exchange_late"));
  EXPECT_EQ(without.code, 0) << "what is registered comes back\n" << without.all();
  const Result result = drill({"--after-steps", "20", "--replay", "4"}, ring("exchange_late"));
  EXPECT_EQ(result.code, 1) << result.all();
  EXPECT_EQ(result.grade("replay_differs"), "problem") << result.all();
  EXPECT_THAT(result.finding("replay_differs")["text"], HasSubstr("after 4 steps, at step "));
  EXPECT_THAT(result.finding("replay_differs")["text"], HasSubstr("cells differs first at element [0] ("));
  EXPECT_THAT(result.finding("replay_differs")["advice"], HasSubstr("ghost layers"));
  const auto& replay = result.report["replay"];
  EXPECT_EQ(replay["from_step"], result.report["notice"]["saved_step"]);
  EXPECT_EQ(replay["resumed"]["restored_step"], replay["from_step"]);
  EXPECT_EQ(replay["undisturbed"]["begins_at_step"], 0);
  EXPECT_EQ(replay["resumed"]["compared"]["different"], nlohmann::json({"cells"}));
  expect_nothing_left();
}

TEST_F(DrillReplay, PassesARightProgram) {
  const Result result = drill({"--after-steps", "20", "--replay", "7"}, ring(""));
  expect_way(result, "the resumed run goes the way of an undisturbed one: after 7 steps");
}

TEST_F(DrillReplay, OfATrainingUnderReprieveRun) {
  Words command = mpirun("reprieve-trainer", {"--checkpoint-dir", checkpoints().string(), "--epochs", "100000",
                                              "--step-delay-ms", "10", "--checkpoint-every", "3"});
  command.insert(command.begin(), {program("reprieve"), "run", "--"});
  expect_way(drill({"--after-steps", "15", "--replay", "5"}, command), "after 5 steps");
}

TEST_F(DrillReplay, OnAnotherNumberOfRanks) {
  const Result result = drill({"--after-steps", "15", "--replay", "5", "--ranks", "3"}, heat());
  expect_way(result, "the run that resumed on 3 ranks instead of 2 goes the way of an undisturbed one");
  EXPECT_EQ(result.report["replay"]["resumed"]["world_size"], 3);
  EXPECT_EQ(result.report["replay"]["undisturbed"]["world_size"], 2);
}

TEST_F(DrillReplay, RoundingOnAnotherNumberOfRanksIsNoProblem) {
  const Result result = drill({"--after-steps", "20", "--replay", "4", "--ranks", "3"}, ring("rounding"));
  EXPECT_EQ(result.code, 0) << result.all();
  ASSERT_EQ(result.grade("replay_rounding"), "warning") << result.all();
  EXPECT_EQ(result.report["replay"]["resumed"]["compared"]["differences"][0]["kind"], "rounding");
}

TEST_F(DrillReplay, CannotTellOfAProgramThatIsAnotherOneEachTime) {
  const Result result = drill({"--after-steps", "20", "--replay", "4"}, ring("random"));
  EXPECT_EQ(result.code, 2) << result.all();
  EXPECT_EQ(result.grade("not_deterministic"), "unknown") << result.all();
  EXPECT_THAT(result.finding("not_deterministic")["text"], HasSubstr("cells differs first at element [0] ("));
  EXPECT_THAT(result.finding("not_deterministic")["advice"], HasSubstr("--ignore"));
  expect_nothing_left();
}

TEST_F(DrillReplay, ComparesAtTheEndOfAProgramThatIsTooShort) {
  const Result result = drill({"--after-steps", "20", "--replay", "100000"}, ring("", 600));
  expect_way(result, "at step 600 (the end of the program, before the 100000 steps that were asked for)");
}

TEST_F(DrillReplay, CannotTellAtAnEndWithoutACheckpoint) {
  const Result result = drill({"--after-steps", "20", "--replay", "100000"}, ring("no_finish", 151));
  EXPECT_EQ(result.code, 2) << result.all();
  EXPECT_EQ(result.grade("replay_too_long"), "unknown") << result.all();
  EXPECT_THAT(result.finding("replay_too_long")["text"], HasSubstr("the program ends at step 151"));
}

TEST_F(DrillReplay, KeepsTheCheckpointsOfAllRuns) {
  const Result result = drill({"--after-steps", "20", "--replay", "7", "--keep"}, ring(""));
  EXPECT_EQ(result.code, 0) << result.all();
  ASSERT_EQ(result.report["kept"].size(), 2U);
  const std::uint64_t step = result.report["replay"]["from_step"];
  for (const nlohmann::json& each : result.report["kept"]) {
    const std::filesystem::path kept = each.get<std::string>();
    EXPECT_TRUE(std::filesystem::exists(kept / ("ckpt-" + std::to_string(step + 7) + ".h5"))) << kept;
  }
}

TEST_F(DrillReplay, RanksNeedALauncherWithANumber) {
  for (const Words& command : {in_shell("exec \"$@\"", {"true"}), Words{"mpirun", "true", "-n", "2"}}) {
    Command tool{{program("reprieve"), "drill", "--replay", "1", "--ranks", "3", "--"}};
    tool.arguments.insert(tool.arguments.end(), command.begin(), command.end());
    Process process(tool);
    EXPECT_EQ(process.wait(kLimit), 2);
    EXPECT_THAT(process.err(), HasSubstr("-np, --np or --ntasks of mpirun"));
  }
  Process alone({{program("reprieve"), "drill", "--ranks", "3", "--", "mpirun", "-n", "2", "true"}});
  EXPECT_EQ(alone.wait(kLimit), 2);
  EXPECT_THAT(alone.err(), HasSubstr("--replay"));
}

TEST_F(DrillReplay, InterruptedByTheUserLeavesNothing) {
  Command tool{{program("reprieve"), "drill", "--after", "100ms", "--replay", "1000000", "--json", "--"},
               mpirun_environment(),
               directory_.path()};
  const Words command = ring("");
  tool.arguments.insert(tool.arguments.end(), command.begin(), command.end());
  Process process(tool);
  const auto has_undisturbed_run = [&] {
    if (!std::filesystem::exists(checkpoints())) {
      return false;
    }
    const std::filesystem::directory_iterator drills(checkpoints());
    return std::distance(begin(drills), end(drills)) == 2;
  };
  ASSERT_TRUE(wait_until(has_undisturbed_run, kLimit)) << process.err();
  process.send(SIGINT);
  EXPECT_EQ(process.wait(kLimit), 2);
  EXPECT_TRUE(process.wait_for_descendants(std::chrono::seconds(10)));
  expect_nothing_left();
}

}  // namespace
}  // namespace reprieve::test
