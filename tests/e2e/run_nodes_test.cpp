// `reprieve run` with mpirun on one host and a rank on each of two others: network namespaces with host names of their
// own, on a virtual switch. Needs root.

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "run_test.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kEndless = 100'000;

/// True if a shell command succeeds.
bool succeeds(const std::string& command) {
  Process process({{"sh", "-ec", command}});
  return process.wait(60s) == 0;
}

/// Three hosts h0, h1 and h2 on a switch, as long as it lives.
class VirtualHosts {
 public:
  VirtualHosts() : prefix_("rt" + std::to_string(::getpid())) {
    const std::string script = R"(
      p=$1
      ip netns add ${p}sw; ip -n ${p}sw link add br0 type bridge; ip -n ${p}sw link set br0 up
      for i in 0 1 2; do
        ip netns add ${p}h$i
        ip link add eth0 netns ${p}h$i type veth peer name p$i netns ${p}sw
        ip -n ${p}sw link set p$i master br0 up
        ip -n ${p}h$i link set lo up
        ip -n ${p}h$i addr add 10.77.0.$((i + 1))/24 dev eth0
        ip -n ${p}h$i link set eth0 up
      done)";
    works_ = succeeds("set -- " + prefix_ + "\n" + script);
  }
  ~VirtualHosts() {
    static_cast<void>(succeeds("for h in sw h0 h1 h2; do ip netns del " + prefix_ + "$h 2>/dev/null || true; done"));
  }
  VirtualHosts(const VirtualHosts&) = delete;
  VirtualHosts& operator=(const VirtualHosts&) = delete;

  [[nodiscard]] bool work() const { return works_; }

  /// What to put before a command so that it runs on host h0.
  [[nodiscard]] std::vector<std::string> on_h0() const {
    return {"ip", "netns", "exec", prefix_ + "h0", "unshare", "--uts", "sh", "-c", R"(hostname "$0" && exec "$@")",
            "h0"};
  }

  /// A program that mpirun calls like ssh.
  void write_agent(const std::filesystem::path& file) const {
    std::ofstream(file) << "#!/bin/sh\nh=$1; shift\nexec ip netns exec " << prefix_
                        << R"("$h" unshare --uts sh -c 'hostname "$0" && exec sh -c "$1"' "$h" "$*")" << '\n';
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  [[nodiscard]] bool set_cable(int host, const std::string& state) const {
    return succeeds("ip -n " + prefix_ + "sw link set p" + std::to_string(host) + " " + state);
  }

 private:
  std::string prefix_;
  bool works_ = false;
};

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
