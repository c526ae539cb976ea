// SPDX-License-Identifier: BSD-3-Clause
// `reprieve run --restarts` under mpirun: crashes, loops, corrupt checkpoints, and what the command returns.

#include <gmock/gmock.h>
#include <signal.h>

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

}  // namespace
}  // namespace reprieve::test
