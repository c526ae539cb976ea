// SPDX-License-Identifier: BSD-3-Clause
// `reprieve run`: the directory that it gives to the program, and whether its end is believed.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "run_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RunDirectoryOption : public RunTest {
 protected:
  /// As a batch script has it: the same program for each task, and a directory for each.
  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start_task(int task, Simulation simulation) const {
    simulation.options.insert(simulation.options.end(), {"--directory", directory_of(task).string()});
    return start(simulation);
  }
  [[nodiscard]] fs::path directory_of(int task) const { return directory_ / ("checkpoints-" + std::to_string(task)); }
};

/// The second task used to resume from the state of the first.
TEST_F(RunDirectoryOption, ReachesTheProgram) {
  for (int task = 0; task < 2; ++task) {
    const auto run = start_task(task, {.step_ms = 1, .faults = {"save_every=10"}});
    expect_end(*run, 0);
    EXPECT_TRUE(run->events("restore").empty()) << "task " << task << run->all_output();
    EXPECT_THAT(run->out(), HasSubstr(end_of(60)));
    EXPECT_TRUE(fs::exists(directory_of(task) / "ckpt-50.h5"));
  }
  EXPECT_FALSE(fs::exists(checkpoints()));
}

/// Whatever the program is told, it must not resume from what another task has saved.
TEST_F(RunDirectoryOption, AProgramThatUsesAnotherOneIsEnded) {
  const auto first = start({.step_ms = 1, .faults = {"save_every=10"}});
  expect_end(*first, 0);
  const auto second = start_task(
      1,
      {.steps = 100'000, .faults = {"save_every=10", "deaf=1"}, .options = {"--restarts", "3", "--backoff", "10ms"}});
  expect_end(*second, 1);
  EXPECT_EQ(second->events("start").size(), 1U);
  EXPECT_THAT(second->events("end").back()["reason"].get<std::string>(),
              AllOf(HasSubstr(checkpoints().string()), HasSubstr(directory_of(1).string())));
}

/// Also if it is over before anybody has looked.
TEST_F(RunDirectoryOption, AShortProgramThatUsesAnotherOneHasFailed) {
  const auto run = start_task(0, {.steps = 1, .step_ms = 0, .faults = {"deaf=1"}});
  expect_end(*run, 1);
  EXPECT_THAT(run->events("end").back()["reason"].get<std::string>(), HasSubstr("--directory names"));
}

/// Scripts whose code says nothing of the ranks.
class RunScript : public RunTest {
 protected:
  [[nodiscard]] std::string mpirun_text(const Simulation& simulation) const {
    std::string text = "mpirun --oversubscribe -n " + std::to_string(kRanks);
    for (const std::string& word : program_arguments(simulation)) {
      text += " '" + word + "'";
    }
    return text;
  }

  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start_script(const std::string& script,
                                                               const std::vector<std::string>& options = {}) const {
    MpiCommand command{.ranks = kRanks, .arguments = {"true"}, .launch_prefix = {program("reprieve"), "run", "--json"}};
    command.launch_prefix.insert(command.launch_prefix.end(), options.begin(), options.end());
    // mpirun -n 2 true stands behind it, as arguments that the script does not look at.
    command.launch_prefix.insert(command.launch_prefix.end(), {"--", "sh", "-c", script, "script"});
    return std::make_unique<SupervisedMpirun>(command);
  }
};

TEST_F(RunScript, APipeThatHidesAKilledRankIsStartedAgain) {
  const auto run = start_script(mpirun_text({.step_ms = 5, .faults = {"die_at=25", "save_every=10"}}) + " | cat",
                                {"--restarts", "2", "--backoff", "10ms"});
  expect_end(*run, 0);
  EXPECT_EQ(run->events("start").size(), 2U) << run->all_output();
  EXPECT_THAT(run->out(), HasSubstr(end_of(60)));
}

TEST_F(RunScript, WithoutRestartsThePipeIsAFailure) {
  const auto run = start_script(mpirun_text({.step_ms = 5, .faults = {"die_at=25", "save_every=10"}}) + " | cat");
  expect_end(*run, 1);
  EXPECT_THAT(run->events("end").back()["reason"].get<std::string>(),
              AllOf(HasSubstr("did not come to its end"), HasSubstr("pipefail")));
}

TEST_F(RunScript, ThatStartsTheProgramAgainByItselfHasFinished) {
  const std::string mpirun = mpirun_text({.step_ms = 5, .faults = {"die_at=25", "save_every=10"}});
  const auto run = start_script(mpirun + "; " + mpirun, {"--restarts", "2"});
  expect_end(*run, 0);
  EXPECT_EQ(run->events("start").size(), 1U) << run->all_output();
}

/// The launcher fails at once, and the pipe hides it: the work of the first start is left.
TEST_F(RunScript, APipeThatHidesALauncherThatFailsIsStartedAgain) {
  const std::string mpirun = mpirun_text({.step_ms = 5, .faults = {"die_at=25", "save_every=10"}});
  const std::string mark = (directory_ / "second").string();
  const auto run =
      start_script("if [ -e " + mark + ".done ]; then " + mpirun + "; elif [ -e " + mark + " ]; then touch " + mark +
                       ".done; exit 1 | cat; else touch " + mark + "; " + mpirun + " | cat; fi",
                   {"--restarts", "3", "--backoff", "10ms"});
  expect_end(*run, 0);
  EXPECT_EQ(run->events("start").size(), 3U) << run->all_output();
  EXPECT_THAT(run->events("end").at(1)["reason"].get<std::string>(), HasSubstr("the start before left work to do"));
  EXPECT_THAT(run->out(), HasSubstr(end_of(60)));
}

TEST_F(RunScript, OfProgramsWithoutAHandlerIsBelieved) {
  const auto run = start_script("true");
  expect_end(*run, 0);
  EXPECT_THAT(run->events("end").back()["reason"].get<std::string>(), HasSubstr("opened no checkpoint directory"));
}

/// A supervisor whose record has no place.
class RunWithoutRoom : public RunTest {
 protected:
  void SetUp() override {
    full_ = directory_ / "full";
    fs::create_directory(full_);
    // Some blocks for directories, none for what is written.
    const std::string mount = "mount -t tmpfs -o size=16k none " + full_.string() +
                              " 2>/dev/null && head -c 1M /dev/zero > " + (full_ / "filler").string() +
                              " 2>/dev/null; test -s " + (full_ / "filler").string();
    if (std::system(mount.c_str()) != 0) {
      GTEST_SKIP() << "cannot mount a tmpfs here";
    }
  }
  void TearDown() override {
    if (std::system(("umount -l " + full_.string() + " 2>/dev/null").c_str()) != 0) {
      SUCCEED();
    }
  }

  fs::path full_;
};

TEST_F(RunWithoutRoom, TheEventLogSaysThatTheStateIsSaved) {
  const auto run =
      start({.steps = 100'000,
             .options = {"--run-dir", full_.string(), "--directory", checkpoints().string(), "--ready-timeout", "1s"}});
  // Nothing tells the supervisor that the ranks are ready; their output tells this test.
  ASSERT_TRUE(wait_until([&] { return run->out().find("step 3") != std::string::npos; }, kLimit)) << run->all_output();
  run->send(SIGTERM);
  expect_end(*run, 42);
  EXPECT_THAT(run->events("warning").front()["text"].get<std::string>(), HasSubstr("no room")) << run->all_output();
  EXPECT_EQ(run->events("end").back()["result"], "saved") << run->all_output();
}

TEST_F(RunWithoutRoom, AFinishedRunHasFinished) {
  const auto run = start({.step_ms = 1, .options = {"--run-dir", full_.string()}});
  expect_end(*run, 0);
}

}  // namespace
}  // namespace reprieve::test
