// SPDX-License-Identifier: BSD-3-Clause
// `reprieve run` with ranks on several hosts: notices, a connection that breaks, and hosts that are left out.

#include <gmock/gmock.h>
#include <signal.h>

#include <memory>
#include <string>

#include "run_test.hpp"
#include "support/virtual_hosts.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kEndlessOnNodes = 100'000;

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
    MpiCommand command{.ranks = kRanks,
                       .arguments = program_arguments(simulation),
                       .mpirun_options = {"--mca", "plm_rsh_agent", agent().string(), "--host", hosts},
                       .launch_prefix = hosts_.on_h0(),
                       .directory = directory_.path()};
    command.launch_prefix.insert(command.launch_prefix.end(), {program("reprieve"), "run", "--json"});
    command.launch_prefix.insert(command.launch_prefix.end(), simulation.options.begin(), simulation.options.end());
    command.launch_prefix.emplace_back("--");
    return std::make_unique<SupervisedMpirun>(command);
  }

  const VirtualHosts hosts_;
};

TEST_F(RunOnNodes, SigtermToEveryProcessOfTheJobSaves) {
  const auto run = start_on_nodes({.steps = kEndlessOnNodes});
  ASSERT_TRUE(run->wait_for_event("ready")) << run->all_output();
  for (const pid_t pid : run->descendants()) {
    ::kill(pid, SIGTERM);  // the daemons on the other hosts as well, as Slurm does
  }
  run->send(SIGTERM);
  expect_saved(*run);
  expect_same_end({.steps = run->events("exit").back()["run_calls"].get<int>() + 10});
}

TEST_F(RunOnNodes, NoticeBeforeTheRanksAreReady) {
  const auto run = start_on_nodes({.steps = kEndlessOnNodes, .faults = {"late=1000"}});
  ASSERT_TRUE(run->wait_for_event("start"));
  run->send(SIGTERM);
  expect_saved(*run);
}

TEST_F(RunOnNodes, CutCableEndsTheRunInBoundedTime) {
  const auto run =
      start_on_nodes({.steps = kEndlessOnNodes, .faults = {"save_every=20"}, .options = {"--link-timeout", "6s"}});
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

TEST_F(RunOnNodes, WithTooFewHostsNothingIsStarted) {
  ASSERT_TRUE(hosts_.set_cable(2, "down"));
  const auto run = start_on_nodes({.options = {"--min-ranks", "2", "--host-timeout", "4s"}});
  expect_end(*run, 1);
  EXPECT_TRUE(run->events("start").empty());
  EXPECT_THAT(run->events("give_up").at(0).at("text").get<std::string>(), HasSubstr("too few hosts answer"));
}

TEST_F(RunOnNodes, ANoticeWhileHostsAreAskedIsKept) {
  ASSERT_TRUE(hosts_.set_cable(2, "down"));
  const auto run = start_on_nodes({.steps = kEndlessOnNodes, .options = {"--min-ranks", "1", "--host-timeout", "60s"}});
  ASSERT_TRUE(run->wait_for_event("hosts_asked")) << run->all_output();
  run->send(SIGTERM);
  ASSERT_TRUE(hosts_.set_cable(2, "up"));
  expect_saved(*run);
}

}  // namespace
}  // namespace reprieve::test
