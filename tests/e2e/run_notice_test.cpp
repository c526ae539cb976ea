// SPDX-License-Identifier: BSD-3-Clause
// `reprieve run` under mpirun: whatever says that the job is about to end, the ranks save and leave, and the next run
// ends as if nothing had happened.

#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <thread>

#include "run_test.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class RunNotice : public RunTest {};

/// Long enough that it is not over by itself.
constexpr int kEndlessSteps = 100'000;

TEST_F(RunNotice, WithoutOneTheProgramFinishes) {
  const auto run = start({.steps = 20});
  expect_end(*run, 0);
  EXPECT_THAT(run->out(), HasSubstr(end_of(20)));
  EXPECT_EQ(run->events("end").back()["result"], "finished");
  EXPECT_TRUE(run->events("request").empty());
}

class RunNoticeBySignal : public RunTest, public ::testing::WithParamInterface<int> {};

TEST_P(RunNoticeBySignal, SavesAndResumes) {
  const auto run = start_and_wait({.steps = kEndlessSteps});
  run->send(GetParam());
  expect_saved(*run);
  const int saved = run->events("exit").back()["run_calls"];
  expect_same_end({.steps = saved + 10});
}
INSTANTIATE_TEST_SUITE_P(Signals, RunNoticeBySignal,
                         ::testing::Values(SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGURG),
                         [](const auto& test) { return std::string(::sigabbrev_np(test.param)); });

TEST_F(RunNotice, BySigtermToTheProcessGroup) {
  const auto run = start_and_wait({.steps = kEndlessSteps});
  run->send_to_group(SIGTERM);
  expect_saved(*run);
}

TEST_F(RunNotice, BySigtermToEveryProcess) {
  // As a scheduler does that kills by process tree: the launcher gets it as well.
  const auto run = start_and_wait({.steps = kEndlessSteps});
  ASSERT_TRUE(run->wait_for_ranks(60s));
  for (const pid_t pid : run->descendants()) {
    ::kill(pid, SIGTERM);
  }
  run->send(SIGTERM);
  expect_saved(*run);
}

TEST_F(RunNotice, RepeatedSignalsDoNoHarm) {
  const auto run = start_and_wait({.steps = kEndlessSteps, .step_ms = 200});
  for (int i = 0; i < 5; ++i) {
    run->send(SIGTERM);
    std::this_thread::sleep_for(30ms);
  }
  expect_saved(*run);
}

TEST_F(RunNotice, BeforeTheLauncherHasStartedTheRanks) {
  const auto run = start({.steps = kEndlessSteps, .faults = {"late=3000"}});
  ASSERT_TRUE(run->wait_for_event("start"));
  run->send(SIGTERM);
  expect_saved(*run);
  EXPECT_THAT(run->events("request").front()["text"].get<std::string>(), HasSubstr("kept until the ranks are ready"));
}

TEST_F(RunNotice, WhileARankHasNoHandlerYet) {
  const auto run = start({.steps = kEndlessSteps, .faults = {"late=2000"}});
  ASSERT_TRUE(run->wait_for_ranks(60s)) << run->all_output();
  run->send(SIGTERM);
  expect_saved(*run);
}

TEST_F(RunNotice, InTheMiddleOfALongStep) {
  const auto run = start_and_wait({.steps = kEndlessSteps, .step_ms = 4000});
  run->send(SIGTERM);
  expect_saved(*run);
  EXPECT_GE(run->events("notice_sent").size(), 2U) << "the notice is repeated until it arrives";
}

TEST_F(RunNotice, ByAFileInTheCheckpointDirectory) {
  const auto run = start_and_wait({.steps = kEndlessSteps});
  std::ofstream(checkpoints() / "PREEMPT").flush();
  expect_saved(*run);
  EXPECT_FALSE(std::filesystem::exists(checkpoints() / "PREEMPT"));
  expect_same_end({.steps = run->events("exit").back()["run_calls"].get<int>() + 10});
}

TEST_F(RunNotice, ByADeadline) {
  const auto run = start({.steps = kEndlessSteps, .options = {"--time-left", "3s", "--lead", "1s"}});
  expect_saved(*run);
  EXPECT_THAT(run->events("request").front()["why"].get<std::string>(), HasSubstr("deadline"));
}

TEST_F(RunNotice, ByTheSignalThatTheProgramWatches) {
  const auto run = start_and_wait({.steps = kEndlessSteps, .faults = {"signals=usr2"}});
  run->send(SIGTERM);
  expect_saved(*run);
}

/// The launcher is started by a shell, which SIGUSR1 would kill, with one script or another.
class RunNoticeThroughAScript : public RunTest,
                                public ::testing::WithParamInterface<std::pair<std::string, std::string>> {};

TEST_P(RunNoticeThroughAScript, SavesAndSaysSo) {
  MpiCommand command{.ranks = kRanks,
                     .arguments = program_arguments({.steps = kEndlessSteps}),
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

TEST_F(RunNotice, OneCtrlCSavesThreeEnd) {
  const auto run = start_and_wait({.steps = kEndlessSteps, .step_ms = 300'000});
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
  const auto run = start({.steps = kEndlessSteps, .faults = {"save_every=5"}});
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
  const auto run = start_and_wait({.steps = kEndlessSteps});
  run->send(SIGKILL);
  EXPECT_EQ(run->wait(kLimit), 128 + SIGKILL);
  EXPECT_TRUE(run->wait_for_descendants(30s));
}

}  // namespace
}  // namespace reprieve::test
