// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// `reprieve run` with mpirun on one host and ranks on others: network namespaces with host names of their own, on a
/// virtual switch. Needs root.

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "run_test.hpp"
#include "support/virtual_hosts.hpp"

namespace reprieve::test {

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

  [[nodiscard]] std::unique_ptr<SupervisedMpirun> start_on_nodes(const Simulation& simulation,
                                                                 const std::string& hosts = "h1:1,h2:1") const {
    MpiCommand command{.ranks = kRanks,
                       .arguments = program_arguments(simulation),
                       .mpirun_options = {"--mca", "plm_rsh_agent", agent().string(), "--host", hosts},
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

}  // namespace reprieve::test
