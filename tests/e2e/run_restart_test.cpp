// SPDX-License-Identifier: BSD-3-Clause
// `reprieve run --restarts` under mpirun: crashes, loops, corrupt checkpoints, and what the command returns.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "run_test.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kEndlessJob = 100'000;
/// Of a run that a test disturbs, and that comes to its end after that: its 60 steps leave five seconds for it.
constexpr int kStepToActIn = 100;

class RunRestart : public RunTest {
 protected:
  static std::string last_text(const SupervisedMpirun& run, const std::string& event) {
    const auto found = run.events(event);
    return found.empty() ? "no event " + event : found.back()["text"].get<std::string>();
  }

  /// Runs the simulation to its end, which is failure.
  void expect_given_up(const Simulation& simulation, int code, const std::string& words) const {
    const auto run = start(simulation);
    expect_end(*run, code);
    EXPECT_THAT(last_text(*run, "give_up"), HasSubstr(words)) << run->all_output();
  }
};

TEST_F(RunRestart, WithoutRestartsACrashGivesTheLaunchersCode) {
  const auto run = start({.faults = {"die_at=20", "save_every=10"}});
  expect_end(*run, 128 + SIGKILL);
  EXPECT_EQ(run->events("start").size(), 1U);
  expect_same_end({});
}

TEST_F(RunRestart, ContinuesAfterACrash) {
  const auto run =
      start({.faults = {"die_at=25", "save_every=10"}, .options = {"--restarts", "2", "--backoff", "10ms"}});
  expect_end(*run, 0);
  EXPECT_THAT(run->out(), HasSubstr(end_of(60)));
  EXPECT_EQ(run->events("start").size(), 2U);
  EXPECT_EQ(run->events("restore").size(), 1U);
}

TEST_F(RunRestart, ContinuesAfterTheLauncherWasKilled) {
  const auto run = start(
      {.step_ms = kStepToActIn, .faults = {"save_every=10"}, .options = {"--restarts", "2", "--backoff", "10ms"}});
  ASSERT_TRUE(run->wait_for_event("save_finished")) << run->all_output();
  ::kill(run->events("start").front()["pid"].get<pid_t>(), SIGKILL);
  expect_end(*run, 0);
  EXPECT_THAT(run->out(), HasSubstr(end_of(60)));
  EXPECT_EQ(run->events("start").size(), 2U);
}

/// Launchers that start and end at the same time share directories, and one may fail for it.
TEST_F(RunRestart, AHostIsAskedAgainWhenTheLauncherFailed) {
  const TemporaryDirectory tools;
  std::ofstream(tools / "mpirun") << "#!/bin/sh\n"
                                     "asked=${0%/*}/asked\n"
                                     "if [ \"${*%true}\" != \"$*\" ] && [ ! -e \"$asked\" ]; then\n"
                                     "  touch \"$asked\"; echo cannot make a directory; exit 213\n"
                                     "fi\n"
                                     "PATH=${PATH#*:}; exec mpirun \"$@\"\n";
  std::filesystem::permissions(tools / "mpirun", std::filesystem::perms::owner_all);
  const auto run = start({.options = {"--min-ranks", "2"},
                          .mpirun_options = {"--host", "localhost:2"},
                          .environment = {{"PATH", tools.path().string() + ":" + std::getenv("PATH")}}});
  expect_end(*run, 0);
  EXPECT_TRUE(std::filesystem::exists(tools / "asked"));
  EXPECT_TRUE(run->events("warning").empty()) << run->all_output();
  EXPECT_TRUE(run->events("host_left_out").empty()) << run->all_output();
}

TEST_F(RunRestart, ContinuesAfterALauncherThatHangs) {
  const auto run = start(
      {.step_ms = kStepToActIn, .faults = {"save_every=10"}, .options = {"--restarts", "2", "--backoff", "10ms"}});
  ASSERT_TRUE(run->wait_for_event("save_finished")) << run->all_output();
  // A launcher that does not hear of the end of its ranks.
  ::kill(run->events("start").front()["pid"].get<pid_t>(), SIGSTOP);
  EXPECT_EQ(run->send_to_ranks(SIGKILL), kRanks);
  expect_end(*run, 0);
  EXPECT_THAT(last_text(*run, "kill"), HasSubstr("does not end although all that it started has"));
  EXPECT_THAT(run->out(), HasSubstr(end_of(60)));
  EXPECT_EQ(run->events("start").size(), 2U);
}

TEST_F(RunRestart, ContinuesAfterANoticeThatOnlyARankGot) {
  const auto run = start_and_wait({.step_ms = kStepToActIn, .options = {"--restarts", "2"}});
  ASSERT_TRUE(run->send_to_rank(1, SIGTERM));
  expect_end(*run, 0);
  EXPECT_THAT(run->out(), HasSubstr(end_of(60)));
  EXPECT_EQ(run->events("start").size(), 2U);
  EXPECT_EQ(run->events("restart").front()["pause_s"], 0.0);
}

/// The ranks know it, and this process does not: another start would meet the same end.
TEST_F(RunRestart, NotWhenTheRanksSayThatTheJobEnds) {
  const auto end = std::chrono::system_clock::now() + std::chrono::seconds(8);
  const auto end_s = std::chrono::duration_cast<std::chrono::seconds>(end.time_since_epoch()).count();
  const auto run = start({.steps = 2000,
                          .step_ms = kStepToActIn,
                          .options = {"--restarts", "3", "--backoff", "10ms"},
                          .environment = {{"REPRIEVE_TERMINATION_END_TIME_S", std::to_string(end_s)},
                                          {"REPRIEVE_TERMINATION_END_LEAD_S", "2"}}});
  expect_end(*run, 42);
  EXPECT_EQ(run->events("start").size(), 1U) << run->all_output();
}

TEST_F(RunRestart, NotAfterANoticeToItself) {
  const auto run = start_and_wait({.steps = kEndlessJob, .options = {"--restarts", "2"}});
  run->send(SIGTERM);
  expect_saved(*run);
  EXPECT_EQ(run->events("start").size(), 1U);
}

TEST_F(RunRestart, NoticeDuringTheBackOffEndsIt) {
  const auto run = start({.faults = {"die_at=5"}, .options = {"--restarts", "2", "--backoff", "60s"}});
  ASSERT_TRUE(run->wait_for_event("restart")) << run->all_output();
  run->send(SIGTERM);
  expect_end(*run, 128 + SIGKILL);
  EXPECT_EQ(run->events("start").size(), 1U);
}

TEST_F(RunRestart, GivesUpOnACrashLoop) {
  expect_given_up({.step_ms = 1,
                   .faults = {"always_die_at=15", "save_every=10"},
                   .options = {"--restarts", "50", "--backoff", "10ms"}},
                  128 + SIGKILL, "crash loop");
}

TEST_F(RunRestart, GivesUpWhenTheBudgetIsUsed) {
  expect_given_up({.step_ms = 1, .faults = {"always_die_at=5"}, .options = {"--restarts", "1", "--backoff", "10ms"}},
                  128 + SIGKILL, "all 1 restarts are used");
}

TEST_F(RunRestart, ErrorOfTheProgramIsNamedAndKeepsItsCode) {
  const auto run = start({.step_ms = 1, .faults = {"throw_at=5"}});
  expect_end(*run, 3);
  EXPECT_THAT(run->events("end").back()["reason"].get<std::string>(), HasSubstr("the pressure is negative"));
}

/// Checkpoints of the steps 10 and 12.
class RunReading : public RunRestart {
 protected:
  void SetUp() override {
    RunRestart::SetUp();
    expect_end(*start({.steps = 20, .step_ms = 1, .faults = {"save_every=10"}}), 0);
    ASSERT_TRUE(std::filesystem::exists(checkpoints() / "ckpt-10.h5"));
    expect_end(*start({.steps = 15, .step_ms = 1, .faults = {"save_every=3", "restart_finished=1"}}), 0);
    ASSERT_TRUE(std::filesystem::exists(checkpoints() / "ckpt-12.h5"));
  }

  /// In HDF5's own structures, which a restore does not read.
  void corrupt(const std::string& name) const {
    std::fstream file(checkpoints() / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 16);
    file.put('\x5a');
    ASSERT_TRUE(file.good());
  }

  const Simulation deadly{.step_ms = 1,
                          .faults = {"die_reading=12", "restart_finished=1"},
                          .options = {"--restarts", "5", "--backoff", "10ms"}};
};

TEST_F(RunReading, ValidCheckpointIsNotQuarantinedHoweverManyRunsDieReadingIt) {
  const auto run = start(deadly);
  expect_end(*run, 128 + SIGKILL);
  EXPECT_THAT(last_text(*run, "give_up"), HasSubstr("crash loop"));
  EXPECT_THAT(last_text(*run, "warning"), HasSubstr("ckpt-12.h5 is valid"));
  EXPECT_EQ(run->events("start").size(), 3U);
  EXPECT_TRUE(std::filesystem::exists(checkpoints() / "ckpt-12.h5"));

  const auto next = start({.step_ms = 1, .faults = {"restart_finished=1"}});
  expect_end(*next, 0);
  EXPECT_THAT(next->out(), HasSubstr(end_of(60)));
}

TEST_F(RunReading, CorruptCheckpointThatKillsItsReadersIsQuarantined) {
  corrupt("ckpt-12.h5");
  const auto run = start(deadly);
  expect_end(*run, 0);
  EXPECT_THAT(run->out(), HasSubstr(end_of(60)));
  EXPECT_EQ(run->events("start").size(), 3U);
  EXPECT_EQ(run->events("quarantine").size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(checkpoints() / "ckpt-12.h5.corrupt"));
}

TEST_F(RunReading, OnlyCheckpointIsNotQuarantined) {
  std::filesystem::remove(checkpoints() / "ckpt-10.h5");
  corrupt("ckpt-12.h5");
  const auto run = start(deadly);
  expect_end(*run, 128 + SIGKILL);
  EXPECT_THAT(last_text(*run, "give_up"), HasSubstr("no older checkpoint"));
  EXPECT_TRUE(std::filesystem::exists(checkpoints() / "ckpt-12.h5"));
}

/// `reprieve run` with something else than mpirun.
class RunCode : public RunTest {
 protected:
  static int code_of(const std::vector<std::string>& arguments) {
    Command command{{program("reprieve"), "run"}};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    Process process(command);
    return process.wait(kLimit).value_or(-1);
  }
};

TEST_F(RunCode, IsThatOfTheProgram) {
  EXPECT_EQ(code_of({"--", "true"}), 0);
  EXPECT_EQ(code_of({"--", "sh", "-c", "exit 7"}), 7);
  EXPECT_EQ(code_of({"--", "sh", "-c", "kill -SEGV $$"}), 128 + SIGSEGV);
}

TEST_F(RunCode, IsNeverTheRestartCodeWhenNothingWasSaved) { EXPECT_EQ(code_of({"--", "sh", "-c", "exit 42"}), 1); }

TEST_F(RunCode, OfWrongUsage) {
  EXPECT_EQ(code_of({"--", "/no/such/program"}), 2);
  EXPECT_EQ(code_of({}), 2);
  EXPECT_EQ(code_of({"--no-such-option", "--", "true"}), 2);
  EXPECT_EQ(code_of({"--time-left", "soon", "--", "true"}), 2);
  EXPECT_EQ(code_of({"--run-dir", "/no/such/directory", "--", "true"}), 2);
}

TEST_F(RunCode, OfHostsThatCannotBeLeftOut) {
  EXPECT_EQ(code_of({"--min-ranks", "1", "--", "true"}), 2) << "no launcher";
  EXPECT_EQ(code_of({"--min-ranks", "1", "--", "mpirun", "--hostfile", "/no/such/file", "true"}), 2);
  EXPECT_EQ(code_of({"--spares", "1", "--", "mpirun", "--host", "here", "true"}), 2) << "none is left";
  EXPECT_EQ(code_of({"--min-ranks", "3", "--", "mpirun", "-n", "2", "--host", "here:2", "true"}), 2);
  EXPECT_EQ(code_of({"--min-ranks", "1", "--", "mpirun", "-n", "1", "--host", "a", "true", ":", "-n", "1", "true"}), 2)
      << "of two programs each has hosts of its own";
}

TEST_F(RunCode, ArgumentsReachTheProgramAsTheyAre) {
  Process process({{program("reprieve"), "run", "--quiet", "--", "printf", "[%s]", "--", "a b", "$HOME", "", "-n"}});
  EXPECT_EQ(process.wait(kLimit), 0);
  EXPECT_EQ(process.out(), "[--][a b][$HOME][][-n]");
  EXPECT_EQ(process.err(), "");
}

// `reprieve run`: the directory that it gives to the program, and whether its end is believed.

namespace fs = std::filesystem;
using ::testing::AllOf;
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
