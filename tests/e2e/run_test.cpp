// SPDX-License-Identifier: BSD-3-Clause
// `reprieve run` under mpirun: whatever says that the job is about to end, the ranks save and leave, and the next run
// ends as if nothing had happened.

#include "e2e/run_test.hpp"

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/metadata_server.hpp"
#include "support/process.hpp"
#include "support/run_directory.hpp"
#include "support/virtual_hosts.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class RunNotice : public RunTest {};

class RunNoticeBySignal : public RunTest, public ::testing::WithParamInterface<int> {};

TEST_P(RunNoticeBySignal, SavesAndResumes) {
  const auto run = start_and_wait({.steps = kEndless});
  run->send(GetParam());
  expect_saved(*run);
  const int saved = run->events("exit").back()["run_calls"];
  expect_same_end({.steps = saved + 10});
}
INSTANTIATE_TEST_SUITE_P(Signals, RunNoticeBySignal,
                         ::testing::Values(SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGURG, SIGXCPU, SIGALRM),
                         [](const auto& test) { return std::string(::sigabbrev_np(test.param)); });

/// What a scheduler's manual says that it does: the variable of its jobs, its signal, the receivers, and the exit code
/// for which it starts the job again.
struct SchedulerEnd {
  std::string name;
  std::string variable;
  int signal;
  enum class To { process, group, ranks } to;
  int code;
};

class RunNoticeByScheduler : public RunTest, public ::testing::WithParamInterface<SchedulerEnd> {};

TEST_P(RunNoticeByScheduler, SavesAndEndsWithItsCode) {
  const SchedulerEnd& end = GetParam();
  // The ranks alone have the variable: mpirun would load libraries of Flux.
  const auto run = start_and_wait({.steps = kEndless, .mpirun_options = {"-x", end.variable + "=7"}});
  switch (end.to) {
    case SchedulerEnd::To::process:
      run->send(end.signal);
      break;
    case SchedulerEnd::To::group:
      run->send_to_group(end.signal);
      break;
    case SchedulerEnd::To::ranks:
      run->send_to_ranks(end.signal);
  }
  expect_saved(*run, end.code);
}
INSTANTIATE_TEST_SUITE_P(
    Of, RunNoticeByScheduler,
    ::testing::Values(SchedulerEnd{"HtcondorVacate", "_CONDOR_SCRATCH_DIR", SIGTERM, SchedulerEnd::To::process, 85},
                      SchedulerEnd{"OarCheckpoint", "OAR_JOB_ID", SIGUSR2, SchedulerEnd::To::group, 99},
                      SchedulerEnd{"FluxSignal", "FLUX_JOB_ID", SIGUSR1, SchedulerEnd::To::ranks, 42},
                      SchedulerEnd{"FluxTimeLimit", "FLUX_JOB_ID", SIGALRM, SchedulerEnd::To::ranks, 42},
                      SchedulerEnd{"AwsBatchTerminate", "AWS_BATCH_JOB_ID", SIGTERM, SchedulerEnd::To::process, 42},
                      SchedulerEnd{"GridEngineNotify", "SGE_O_HOST", SIGUSR2, SchedulerEnd::To::group, 99},
                      SchedulerEnd{"LsfKill", "LSB_JOBID", SIGINT, SchedulerEnd::To::group, 42},
                      SchedulerEnd{"LsfCpuLimit", "LSB_JOBID", SIGXCPU, SchedulerEnd::To::ranks, 42},
                      SchedulerEnd{"PbsDelete", "PBS_JOBID", SIGTERM, SchedulerEnd::To::group, 42}),
    [](const auto& test) { return test.param.name; });

TEST_F(RunNotice, RepeatedSignalsDoNoHarm) {
  const auto run = start_and_wait({.steps = kEndless, .step_ms = 200});
  for (int i = 0; i < 5; ++i) {
    run->send(SIGTERM);
    std::this_thread::sleep_for(30ms);
  }
  expect_saved(*run);
}

TEST_F(RunNotice, BeforeTheLauncherHasStartedTheRanks) {
  const auto run = start({.steps = kEndless, .faults = {"late=3000"}});
  ASSERT_TRUE(run->wait_for_event("start"));
  run->send(SIGTERM);
  expect_saved(*run);
  EXPECT_THAT(run->events("request").front()["text"].get<std::string>(), HasSubstr("kept until the ranks are ready"));
}

TEST_F(RunNotice, InTheMiddleOfALongStep) {
  const auto run = start_and_wait({.steps = kEndless, .step_ms = 4000});
  run->send(SIGTERM);
  expect_saved(*run);
  EXPECT_GE(run->events("notice_sent").size(), 2U) << "the notice is repeated until it arrives";
}

TEST_F(RunNotice, ByAFileInTheCheckpointDirectory) {
  const auto run = start_and_wait({.steps = kEndless});
  std::ofstream(checkpoints() / "PREEMPT").flush();
  expect_saved(*run);
  EXPECT_FALSE(std::filesystem::exists(checkpoints() / "PREEMPT"));
  expect_same_end({.steps = run->events("exit").back()["run_calls"].get<int>() + 10});
}

TEST_F(RunNotice, ByADeadline) {
  const auto run = start({.steps = kEndless, .options = {"--time-left", "3s", "--lead", "1s"}});
  expect_saved(*run);
  EXPECT_THAT(run->events("request").front()["why"].get<std::string>(), HasSubstr("deadline"));
}

/// A new start would be on the same machine.
TEST_F(RunNotice, ByTheCloudThatTakesTheMachine) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--min-ranks", "1"}}) {
    MetadataServerDouble cloud;
    const auto run = start_and_wait({.steps = kEndless,
                                     .options = joined({"--restarts", "3"}, more),
                                     .mpirun_options = {"--host", "localhost:2"},
                                     .environment = cloud.environment("gce")});
    cloud.set_maintenance_event("TERMINATE_ON_HOST_MAINTENANCE");
    expect_end(*run, 143);
    EXPECT_EQ(run->events("start").size(), 1U) << run->all_output();
    EXPECT_THAT(run->events("request").front()["why"].get<std::string>(), HasSubstr("is about to end"));
  }
}

TEST_F(RunNotice, ByTheSignalThatTheProgramWatches) {
  const auto run = start_and_wait({.steps = kEndless, .faults = {"signals=usr2"}});
  run->send(SIGTERM);
  expect_saved(*run);
}

/// The launcher is started by a shell, which SIGUSR1 would kill, with one script or another.
class RunNoticeThroughAScript : public RunTest,
                                public ::testing::WithParamInterface<std::pair<std::string, std::string>> {};

TEST_P(RunNoticeThroughAScript, SavesAndSaysSo) {
  MpiCommand command{.ranks = kRanks,
                     .arguments = program_arguments({.steps = kEndless}),
                     .launch_prefix = {program("reprieve"), "run", "--json", "--", "sh", "-c", GetParam().second, "x"}};
  SupervisedMpirun run(command);
  ASSERT_TRUE(run.wait_for_event("ready")) << run.all_output();
  run.send(SIGTERM);
  expect_saved(run);
}
INSTANTIATE_TEST_SUITE_P(Scripts, RunNoticeThroughAScript,
                         ::testing::Values(std::pair("ThatReturnsTheLaunchersCode", "\"$@\"; exit $?"),
                                           std::pair("ThatReturnsZeroInAnyCase", "\"$@\"; exit 0")),
                         [](const auto& test) { return test.param.first; });

/// The shield covers the launcher alone.
TEST_F(RunNotice, CommandsOfAScriptCanBeEnded) {
  const std::string script =
      "timeout 1 sleep 60; echo code $?; sleep 60 & kill $!; wait $!; echo code $?; \"$@\" & wait $!; exit $?";
  const auto run = std::make_unique<SupervisedMpirun>(
      MpiCommand{.ranks = kRanks,
                 .arguments = program_arguments({.steps = kEndless}),
                 .launch_prefix = {program("reprieve"), "run", "--json", "--", "sh", "-c", script, "x"}});
  ASSERT_TRUE(run->wait_for_event("ready")) << run->all_output();
  EXPECT_THAT(run->out(), HasSubstr("code 124\ncode 143\n"));
  for (const pid_t pid : run->descendants()) {
    ::kill(pid, SIGTERM);  // the script dies of it, and mpirun does not
  }
  run->send(SIGTERM);
  expect_saved(*run);
  expect_same_end({.steps = run->events("exit").back()["run_calls"].get<int>() + 10});
}

/// A batch script of Slurm, below a shell with the name of Slurm's daemon. Slurm sends SIGTERM to its shell alone.
struct BatchScript {
  const char* name;
  const char* text;
  bool is_warned_of;
};

class RunInBatchScript : public RunTest, public ::testing::WithParamInterface<BatchScript> {};

TEST_P(RunInBatchScript, SavesWhenItsShellGetsSigterm) {
  const auto tools = directory_ / "bin";
  std::filesystem::create_directory(tools);
  std::filesystem::create_symlink("/bin/sh", tools / "slurmstepd");
  std::ofstream(tools / "scontrol") << "#!/bin/sh\nexit 1\n";
  std::filesystem::permissions(tools / "scontrol", std::filesystem::perms::owner_all);
  SupervisedMpirun run({.ranks = kRanks,
                        .arguments = program_arguments({.steps = kEndless}),
                        .launch_prefix = joined({(tools / "slurmstepd").string(), "-c", "sh -c \"$@\"; exit $?", "x",
                                                 GetParam().text, "batch"},
                                                supervisor({.options = {"--slurm"}})),
                        .environment = {{"SLURM_JOB_ID", "7"},
                                        {"PATH", tools.string() + ":" + std::getenv("PATH")},
                                        {"OMPI_MCA_plm", "^slurm"},
                                        {"OMPI_MCA_ras", "^slurm"},
                                        {"OMPI_MCA_ess", "^slurm"}}});
  ASSERT_TRUE(run.wait_for_event("ready")) << run.all_output();
  if (GetParam().is_warned_of) {
    ASSERT_TRUE(run.wait_for_event("warning")) << run.all_output();
    EXPECT_THAT(run.events("warning").front()["text"].get<std::string>(), HasSubstr("exec reprieve run"));
  }
  ::kill(run.descendants().front(), SIGTERM);
  EXPECT_TRUE(run.wait_for_descendants(kLimit)) << run.all_output();
  const int code = run.wait(kLimit).value_or(-1);
  EXPECT_EQ(code, GetParam().is_warned_of ? 128 + SIGTERM : 75) << run.all_output();
  EXPECT_EQ(events_of(read_text(checkpoints() / "events.jsonl"), "exit").size(), 1U) << run.all_output();
  EXPECT_EQ(run.events("warning").size(), GetParam().is_warned_of ? 1U : 0U) << run.all_output();
}
INSTANTIATE_TEST_SUITE_P(
    Of, RunInBatchScript,
    ::testing::Values(BatchScript{"ALineAfterIt", "\"$@\"; echo after it", true},
                      BatchScript{"APipe", "\"$@\" | cat", true}, BatchScript{"Exec", "exec \"$@\"", false},
                      BatchScript{"BackgroundTrapWait",
                                  "\"$@\" & run=$!; trap 'kill -TERM $run' TERM; trap 'kill -URG $run' URG; "
                                  "while wait $run; code=$?; kill -0 $run 2>/dev/null; do :; done; exit $code",
                                  false}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(RunNotice, OneCtrlCSavesThreeEnd) {
  const auto run = start_and_wait({.steps = kEndless, .step_ms = 300'000});
  run->send(SIGINT);
  ASSERT_TRUE(run->wait_for_event("notice_sent"));
  run->send(SIGINT);
  ASSERT_TRUE(run->wait_for_event("warning"));
  EXPECT_THAT(run->events("warning").back()["text"].get<std::string>(), HasSubstr("there is no checkpoint yet"));
  EXPECT_TRUE(run->running());
  run->send(SIGINT);
  expect_end(*run, 130);
}

TEST_F(RunNotice, SecondCtrlCNamesTheCheckpointThatIsLeft) {
  const auto run = start({.steps = kEndless, .faults = {"save_every=5"}});
  ASSERT_TRUE(run->wait_for_event("save_finished")) << run->all_output();
  for (const auto& [rank, pid] : run->ranks()) {
    ::kill(pid, SIGSTOP);  // so that it cannot save
  }
  const auto newest = run->events("save_finished").back()["number"].get<int>();
  run->send(SIGINT);
  ASSERT_TRUE(run->wait_for_event("notice_sent"));
  run->send(SIGINT);
  ASSERT_TRUE(run->wait_for_event("warning"));
  const auto text = run->events("warning").back()["text"].get<std::string>();
  EXPECT_THAT(text, HasSubstr("since checkpoint "));
  EXPECT_GE(std::stoi(text.substr(text.find("checkpoint ") + 11)), newest);
  run->send(SIGINT);
  expect_end(*run, 130);
}

TEST_F(RunNotice, ProgramWithoutTheLibraryIsSentItAfterAWhile) {
  SupervisedMpirun run({.ranks = 1,
                        .arguments = {"/bin/sleep", "1000"},
                        .launch_prefix = {program("reprieve"), "run", "--json", "--ready-timeout", "1s", "--"}});
  ASSERT_TRUE(run.wait_for_ranks(60s));
  run.send(SIGTERM);
  expect_end(run, 128 + SIGUSR1);
  EXPECT_EQ(run.events("end").back()["result"], "failed");
}

TEST_F(RunNotice, NothingOutlivesTheSupervisor) {
  SupervisedMpirun run(
      {.ranks = 1, .arguments = {"/bin/sleep", "1000"}, .launch_prefix = {program("reprieve"), "run", "--json", "--"}});
  ASSERT_TRUE(run.wait_for_ranks(60s));
  run.send(SIGKILL);
  EXPECT_EQ(run.wait(kLimit), 128 + SIGKILL);
  EXPECT_TRUE(run.wait_for_descendants(30s));
}

/// The job saves and ends when the supervisor dies: with its launcher, or below a script that dies with the supervisor.
class RunWithoutSupervisor : public RunTest, public ::testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(RunWithoutSupervisor, SavesAndEnds) {
  SupervisedMpirun run({.ranks = kRanks,
                        .arguments = program_arguments({.steps = kEndless}),
                        .launch_prefix = joined(supervisor({}), GetParam())});
  ASSERT_TRUE(run.wait_for_event("ready")) << run.all_output();
  ASSERT_TRUE(wait_until([&] { return run.out().find("step 3") != std::string::npos; }, kLimit));
  run.send(SIGKILL);
  EXPECT_EQ(run.wait(kLimit), 128 + SIGKILL);
  EXPECT_TRUE(run.wait_for_descendants(30s));
  const auto exits = events_of(read_text(checkpoints() / "events.jsonl"), "exit");
  ASSERT_EQ(exits.size(), 1U) << run.all_output();
  const auto next = start({.steps = exits.back()["run_calls"].get<int>() + 10, .step_ms = 1});
  expect_end(*next, 0);
  EXPECT_EQ(next->events("restore").back()["run_calls"], exits.back()["run_calls"]);
}
INSTANTIATE_TEST_SUITE_P(Ways, RunWithoutSupervisor,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"sh", "-c", "\"$@\"; exit $?", "x"}),
                         [](const auto& test) { return test.param.empty() ? "Launcher" : "Script"; });

/// Each rank is the child of a script, as in a container: a signal to the script does not reach it.
class RunBehindWrapper : public RunTest, public ::testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(RunBehindWrapper, TheNoticeComesByTheDirectoryOfTheRun) {
  const std::string wrapper = std::string(GetParam().second) + "\"$@\"; exit $?";
  const auto program = program_arguments({.steps = kEndless});
  SupervisedMpirun run({.ranks = kRanks,
                        .arguments = joined({"sh", "-c", wrapper, "wrapper"}, program),
                        .launch_prefix = supervisor({})});
  ASSERT_TRUE(run.wait_for_event("ready")) << run.all_output();
  run.send(SIGTERM);
  expect_saved(run);
  EXPECT_THAT(run.events("agreement").back()["text"].get<std::string>(), HasSubstr("the notice arrived"));
  for (const auto& sent : run.events("notice_sent")) {
    EXPECT_THAT(sent["to"].get<std::string>(), HasSubstr("directory of the run")) << run.all_output();
  }
}
INSTANTIATE_TEST_SUITE_P(Signals, RunBehindWrapper,
                         ::testing::Values(std::pair("Kill", ""), std::pair("AreIgnored", "trap '' USR1 USR2 TERM; ")),
                         [](const auto& test) { return std::string(test.param.first); });

// `reprieve run --restarts` under mpirun: crashes, loops, corrupt checkpoints, and what the command returns.

/// Of a run that a test disturbs, and that comes to its end after that: its 60 steps leave five seconds for it.
constexpr int kStepToActIn = 100;

class RunRestart : public RunTest {
 protected:
  static std::string last_text(const SupervisedMpirun& run, const std::string& event) {
    const auto found = run.events(event);
    return found.empty() ? "no event " + event : found.back()["text"].get<std::string>();
  }
};

TEST_F(RunRestart, WithoutRestartsACrashGivesTheLaunchersCode) {
  const auto run = start({.faults = {"die_at=20", "save_every=10"}});
  expect_end(*run, 128 + SIGKILL);
  EXPECT_EQ(run->events("start").size(), 1U);
  expect_same_end({});
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
                                     "if [ \"${*%uname -n}\" != \"$*\" ] && [ ! -e \"$asked\" ]; then\n"
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
  const auto run = start_and_wait({.steps = kEndless, .options = {"--restarts", "2"}});
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

TEST_F(RunRestart, ErrorOfTheProgramIsNamedAndKeepsItsCode) {
  const auto run = start({.step_ms = 1, .faults = {"throw_at=5"}});
  expect_end(*run, 3);
  EXPECT_THAT(run->events("end").back()["reason"].get<std::string>(), HasSubstr("the pressure is negative"));
}

TEST_F(RunRestart, AProgramThatDiesAfterItsLastStepIsStartedAgainAndWritesItsResults) {
  const auto run = start({.steps = 20, .step_ms = 1, .faults = {"die_at_end=1"}, .options = {"--restarts", "2"}});
  expect_end(*run, 0);
  ASSERT_EQ(run->events("start").size(), 2U) << run->all_output();
  EXPECT_THAT(run->events("end").front()["reason"].get<std::string>(), HasSubstr("all steps are done"));
  EXPECT_EQ(run->events("restore").back()["run_calls"], 20);
  EXPECT_THAT(run->out(), HasSubstr(end_of(20)));
}

TEST_F(RunRestart, AFinishedRunWritesItsResultsAgainAndGoesOnWithMoreSteps) {
  for (const int steps : {20, 20, 30}) {
    const auto run = start({.steps = steps, .step_ms = 1});
    expect_end(*run, 0);
    EXPECT_THAT(run->out(), HasSubstr(end_of(steps)));
    EXPECT_EQ(run->out().find("step 20\n") != std::string::npos, run->events("restore").empty()) << steps;
    EXPECT_EQ(run->events("end").back()["result"], "finished");
    EXPECT_TRUE(run->events("request").empty());
  }
}

TEST_F(RunNotice, AfterTheLastStepTheProgramComesToItsEnd) {
  const auto run = start({.steps = 20, .step_ms = 1, .faults = {"notice_at_end=1"}});
  expect_end(*run, 0);
  EXPECT_EQ(run->events("end").back()["result"], "finished");
  EXPECT_EQ(run->events("agreement").size(), 1U) << run->all_output();
  EXPECT_THAT(run->out(), HasSubstr(end_of(20)));
}

/// Checkpoints of the steps 10 and 12.
class RunReading : public RunRestart {
 protected:
  void SetUp() override {
    RunRestart::SetUp();
    expect_end(*start({.steps = 10, .step_ms = 1}), 0);
    ASSERT_TRUE(std::filesystem::exists(checkpoints() / "ckpt-10.h5"));
    expect_end(*start({.steps = 12, .step_ms = 1}), 0);
    ASSERT_TRUE(std::filesystem::exists(checkpoints() / "ckpt-12.h5"));
  }

  /// In HDF5's own structures, which a restore does not read.
  void corrupt(const std::string& name) const {
    std::fstream file(checkpoints() / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 16);
    file.put('\x5a');
    ASSERT_TRUE(file.good());
  }

  const Simulation deadly{
      .step_ms = 1, .faults = {"die_reading=12"}, .options = {"--restarts", "5", "--backoff", "10ms"}};
};

TEST_F(RunReading, ValidCheckpointIsNotQuarantinedHoweverManyRunsDieReadingIt) {
  const auto run = start(deadly);
  expect_end(*run, 128 + SIGKILL);
  EXPECT_THAT(last_text(*run, "give_up"), HasSubstr("crash loop"));
  EXPECT_THAT(last_text(*run, "warning"), HasSubstr("ckpt-12.h5 is valid"));
  EXPECT_EQ(run->events("start").size(), 3U);
  EXPECT_TRUE(std::filesystem::exists(checkpoints() / "ckpt-12.h5"));

  const auto next = start({.step_ms = 1});
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
    Process process({joined({program("reprieve"), "run"}, arguments)});
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
  EXPECT_EQ(code_of({"--run-dir", "", "--", "true"}), 0) << "of a shell's variable that is not set";
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
              ::testing::AllOf(HasSubstr(checkpoints().string()), HasSubstr(directory_of(1).string())));
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
    // mpirun -n 2 true stands behind it, as arguments that the script does not look at.
    const std::vector<std::string> prefix = joined(supervisor({.options = options}), {"sh", "-c", script, "script"});
    return std::make_unique<SupervisedMpirun>(
        MpiCommand{.ranks = kRanks, .arguments = {"true"}, .launch_prefix = prefix});
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
              ::testing::AllOf(HasSubstr("did not come to its end"), HasSubstr("pipefail")));
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

// `reprieve run` with ranks on several hosts: notices, a connection that breaks, and hosts that are left out.

/// `reprieve run` with mpirun on host h0 and ranks on others.
class RunOnNodes : public RunTest {
 protected:
  void SetUp() override {
    if (!hosts_.work()) {
      GTEST_SKIP() << VirtualHosts::kNeeds;
    }
    hosts_.write_agent(agent());
  }

  [[nodiscard]] std::filesystem::path agent() const { return directory_ / "agent.sh"; }

  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start_on_nodes(const Simulation& simulation,
                                                                 const std::string& hosts = "h1:1,h2:1") const {
    return std::make_unique<SupervisedMpirun>(
        MpiCommand{.ranks = kRanks,
                   .arguments = program_arguments(simulation),
                   .mpirun_options =
                       joined({"--mca", "plm_rsh_agent", agent().string(), "--host", hosts}, simulation.mpirun_options),
                   .launch_prefix = joined(hosts_.on_h0(), supervisor(simulation)),
                   .directory = directory_.path()});
  }

  const VirtualHosts hosts_;
};

TEST_F(RunOnNodes, SigtermToEveryProcessOfTheJobSaves) {
  const auto run = start_on_nodes({.steps = kEndless});
  ASSERT_TRUE(run->wait_for_event("ready")) << run->all_output();
  for (const pid_t pid : run->descendants()) {
    ::kill(pid, SIGTERM);  // the daemons on the other hosts as well, as Slurm does
  }
  run->send(SIGTERM);
  expect_saved(*run);
  expect_same_end({.steps = run->events("exit").back()["run_calls"].get<int>() + 10});
}

TEST_F(RunOnNodes, CutCableEndsTheRunInBoundedTime) {
  const auto run =
      start_on_nodes({.steps = kEndless, .faults = {"save_every=20"}, .options = {"--link-timeout", "6s"}});
  ASSERT_TRUE(run->wait_for_event("save_finished", 2)) << run->all_output();
  ASSERT_TRUE(hosts_.set_cable(2, "down"));
  const auto code = run->wait(kLimit);  // by itself the launcher would notice after 8 minutes
  ASSERT_TRUE(code) << run->all_output();
  EXPECT_NE(*code, 0);
  EXPECT_NE(*code, 42);
  EXPECT_TRUE(run->wait_for_descendants(10s)) << run->all_output();
  ASSERT_TRUE(hosts_.set_cable(2, "up"));
  const auto next = start_on_nodes({.steps = 1000, .step_ms = 0});
  expect_end(*next, 0);
  EXPECT_THAT(next->out(), HasSubstr(end_of(1000)));
  EXPECT_EQ(next->events("restore").size(), 1U);
}

TEST_F(RunOnNodes, ASpareTakesThePlaceOfADeadHost) {
  const auto run =
      start_on_nodes({.steps = 400,
                      .faults = {"save_every=20"},
                      .options = {"--restarts", "3", "--spares", "1", "--link-timeout", "6s", "--host-timeout", "8s"}},
                     "h1:1,h2:1,h0:1");
  ASSERT_TRUE(run->wait_for_event("save_finished", 2)) << run->all_output();
  EXPECT_EQ(run->events("hosts").at(0).at("hosts"), "h1:1,h2:1");
  ASSERT_TRUE(hosts_.set_cable(2, "down"));
  expect_end(*run, 0);
  EXPECT_EQ(run->events("host_left_out").at(0).at("host"), "h2") << run->all_output();
  EXPECT_EQ(run->events("hosts").back().at("hosts"), "h1:1,h0:1");
  EXPECT_EQ(run->events("hosts").back().at("ranks"), 2);
  EXPECT_GE(run->events("restore").size(), 1U);
  EXPECT_THAT(run->out(), HasSubstr(end_of(400)));
}

/// Two nodes. The metadata server of the second one says that its machine ends.
class RunOnACloud : public RunOnNodes {
 protected:
  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start_and_take_h2(const std::string& min_ranks) {
    EXPECT_TRUE(hosts_.inside(2, [this] { cloud_.emplace(); }));
    std::vector<std::string> exported;
    for (const auto& [name, value] : cloud_->environment("aws")) {
      exported.insert(exported.end(), {"-x", name + "=" + value.value()});
    }
    auto run = start_on_nodes(
        {.steps = 400, .options = {"--restarts", "3", "--min-ranks", min_ranks}, .mpirun_options = exported});
    EXPECT_TRUE(run->wait_for_event("ready")) << run->all_output();
    cloud_->set_instance_action(R"({"action": "terminate", "time": ")" + iso_time_in(3s) + "\"}");
    return run;
  }

 private:
  std::optional<MetadataServerDouble> cloud_;
};

TEST_F(RunOnACloud, AMachineThatIsTakenIsLeftOut) {
  const auto run = start_and_take_h2("1");
  expect_end(*run, 0);
  EXPECT_EQ(run->events("host_left_out").at(0).at("host"), "h2") << run->all_output();
  EXPECT_EQ(run->events("host_left_out").at(0).at("message"), "its machine is about to end");
  EXPECT_EQ(run->events("hosts").back().at("hosts"), "h1:1");
  EXPECT_EQ(run->events("start").size(), 2U);
  EXPECT_THAT(run->out(), HasSubstr(end_of(400)));
}

TEST_F(RunOnACloud, WithTooFewOthersTheJobLeavesSaved) {
  const auto run = start_and_take_h2("2");
  expect_end(*run, 42);
  EXPECT_EQ(run->events("start").size(), 1U) << run->all_output();
  EXPECT_THAT(run->events("give_up").at(0).at("text").get<std::string>(), HasSubstr("too few hosts answer"));
}

TEST_F(RunOnNodes, WithTooFewHostsNothingIsStarted) {
  ASSERT_TRUE(hosts_.set_cable(2, "down"));
  const auto run = start_on_nodes({.options = {"--min-ranks", "2", "--host-timeout", "4s"}});
  expect_end(*run, 1);
  EXPECT_TRUE(run->events("start").empty());
  EXPECT_THAT(run->events("give_up").at(0).at("text").get<std::string>(), HasSubstr("too few hosts answer"));
}

TEST_F(RunOnNodes, ANoticeWhileHostsAreAskedIsKept) {
  ASSERT_TRUE(hosts_.set_cable(2, "down"));
  const auto run = start_on_nodes({.steps = kEndless, .options = {"--min-ranks", "1", "--host-timeout", "60s"}});
  ASSERT_TRUE(run->wait_for_event("hosts_asked")) << run->all_output();
  run->send(SIGTERM);
  ASSERT_TRUE(hosts_.set_cable(2, "up"));
  expect_saved(*run);
}

}  // namespace
}  // namespace reprieve::test
