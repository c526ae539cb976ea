// SPDX-License-Identifier: BSD-3-Clause
// `reprieve run` with mpirun on one host and a rank on each of two others: network namespaces with host names of their
// own, on a virtual switch. Needs root.

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "run_test.hpp"
#include "support/virtual_hosts.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kEndless = 100'000;

class RunOnNodes : public RunTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root, for network namespaces";
    }
    hosts_.emplace();
    if (!hosts_->work()) {
      GTEST_SKIP() << "this system does not allow network namespaces";
    }
    hosts_->write_agent(agent());
  }

  [[nodiscard]] std::filesystem::path agent() const { return directory_ / "agent.sh"; }

  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start_on_nodes(const Simulation& simulation) const {
    MpiCommand command{.ranks = kRanks,
                       .arguments = program_arguments(simulation),
                       .mpirun_options = {"--mca", "plm_rsh_agent", agent().string(), "--host", "h1:1,h2:1"},
                       .launch_prefix = hosts_->on_h0(),
                       .directory = directory_.path()};
    for (const std::string& word : {program("reprieve"), std::string("run"), std::string("--json")}) {
      command.launch_prefix.push_back(word);
    }
    command.launch_prefix.insert(command.launch_prefix.end(), simulation.options.begin(), simulation.options.end());
    command.launch_prefix.emplace_back("--");
    return std::make_unique<SupervisedMpirun>(command);
  }

  std::optional<VirtualHosts> hosts_;
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

TEST_F(RunOnNodes, NoticeBeforeTheRanksAreReady) {
  const auto run = start_on_nodes({.steps = kEndless, .faults = {"late=1000"}});
  ASSERT_TRUE(run->wait_for_event("start"));
  run->send(SIGTERM);
  expect_saved(*run);
}

TEST_F(RunOnNodes, CutCableEndsTheRunInBoundedTime) {
  const auto run =
      start_on_nodes({.steps = kEndless, .faults = {"save_every=20"}, .options = {"--link-timeout", "6s"}});
  ASSERT_TRUE(run->wait_for_event("save_finished", 2)) << run->all_output();
  ASSERT_TRUE(hosts_->set_cable(2, "down"));
  const auto code = run->wait(kLimit);  // by itself the launcher would notice after 8 minutes
  ASSERT_TRUE(code) << run->all_output();
  EXPECT_NE(*code, 0);
  EXPECT_NE(*code, 42);
  EXPECT_TRUE(run->wait_for_descendants(10s)) << run->all_output();
  ASSERT_TRUE(hosts_->set_cable(2, "up"));
  const auto next = start_on_nodes({.steps = 1000, .step_ms = 0});
  expect_end(*next, 0);
  EXPECT_THAT(next->out(), HasSubstr(end_of(1000)));
  EXPECT_EQ(next->events("restore").size(), 1U);
}

}  // namespace
}  // namespace reprieve::test
