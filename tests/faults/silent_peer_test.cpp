// SPDX-License-Identifier: BSD-3-Clause
// Ranks that fall silent: stopped, computing for long, dead. Every wait has a limit, and past it the error names the
// ranks that did not come, their hosts, and where all were last seen. The last checkpoint stays.

#include <signal.h>
#include <unistd.h>

#include "faults/field_test.hpp"
#include "support/virtual_hosts.hpp"

namespace reprieve::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kEndlessSteps = 100'000;

class SilentPeer : public FieldTest {
 protected:
  /// What all ranks that are there must say.
  static void expect_named(const std::string& output, int rank) {
    EXPECT_THAT(output, ContainsRegex("no answer within [0-9.]+ s from rank " + std::to_string(rank) +
                                      " \\([^)]+\\); all ranks were last seen at step boundary [0-9]+"));
  }
};

TEST_F(SilentPeer, AStoppedRankIsNamedAtABoundary) {
  const auto job = start(3, kEndlessSteps, 10, {"save_every=5", "stop_at=17", "peer_timeout_ms=3000"});
  EXPECT_EQ(end_of(*job), 3) << job->err();
  expect_named(job->err(), 2);
  EXPECT_EQ(expect_sound_checkpoints(), 3);
  expect_same_end(3, 40);
}

TEST_F(SilentPeer, AStoppedChiefIsNamedAtABoundary) {
  const auto job = start(3, kEndlessSteps, 10, {"save_every=5", "stop_at=17", "stop_rank=0", "peer_timeout_ms=3000"});
  EXPECT_EQ(end_of(*job), 3) << job->err();
  expect_named(job->err(), 0);
  expect_same_end(2, 40);
}

/// Other ranks wait in the middle of a save: nothing of it may be left as a checkpoint.
TEST_F(SilentPeer, AStoppedRankIsNamedInASave) {
  for (const std::string rank : {"0", "1"}) {
    const auto job =
        start(3, kEndlessSteps, 10,
              {"save_every=5", "stop_in_save=15", "stop_rank=" + rank, "io_timeout_ms=3000", "peer_timeout_ms=3000"});
    EXPECT_EQ(end_of(*job), 3) << job->err();
    EXPECT_THAT(job->err(), ContainsRegex("save.*no answer within [0-9.]+ s from rank " + rank + " \\("));
    EXPECT_FALSE(std::filesystem::exists(checkpoints() / "ckpt-15.h5"));
    EXPECT_GE(expect_sound_checkpoints(), 2);
    expect_same_end(3, 12);
    std::filesystem::remove_all(checkpoints());
  }
}

TEST_F(SilentPeer, ARankThatContinuesInTimeIsWaitedFor) {
  const auto job = start(2, kEndlessSteps, 10, {"save_every=5", "stop_at=12"});
  wait_for_step(*job, 10);
  const auto stopped = job->ranks().at(1);
  ASSERT_TRUE(wait_until(
      [&] { return read_text("/proc/" + std::to_string(stopped) + "/stat").find(") T ") != std::string::npos; },
      kLimit));
  ASSERT_TRUE(job->send_to_rank(0, SIGTERM));  // a notice that must wait
  ASSERT_TRUE(job->send_to_rank(1, SIGCONT));
  EXPECT_EQ(end_of(*job), 42) << job->err();
  expect_same_end(2, 40);
}

TEST_F(SilentPeer, ALongComputationIsNoFault) {
  const auto job = start(2, 30, 0, {"save_every=5", "busy_at=17", "busy_ms=4000"});
  EXPECT_EQ(end_of(*job), 0) << job->err();
  EXPECT_EQ(digest_in(job->out()), digest_of(30));
}

TEST_F(SilentPeer, AComputationBeyondTheLimitIsNamed) {
  const auto job = start(3, kEndlessSteps, 0, {"save_every=5", "busy_at=17", "busy_ms=60000", "peer_timeout_ms=2000"});
  EXPECT_EQ(end_of(*job), 3) << job->err();
  expect_named(job->err(), 2);
  expect_same_end(3, 40);
}

/// When a rank dies, mpirun sends SIGTERM to the others, just as in a preemption. It must not be taken for one.
TEST_F(SilentPeer, TheTearDownAfterADeathIsNoPreemption) {
  for (const int victim : {0, 1, 2}) {
    const auto job = start(3, kEndlessSteps, 10, {"save_every=5"});
    wait_for_step(*job, victim * 5 + 12);
    ASSERT_TRUE(job->send_to_rank(victim, SIGKILL));
    EXPECT_EQ(end_of(*job), 128 + SIGKILL) << job->err();
    EXPECT_TRUE(events("notice").empty());
    EXPECT_TRUE(events("exit").empty());
    EXPECT_GE(expect_sound_checkpoints(), 2);
  }
  expect_same_end(3, 60);
}

/// The same signal from the same sender, with all ranks alive, is one.
TEST_F(SilentPeer, ASigtermFromTheLauncherIsAPreemption) {
  if (!has_open_mpi_4()) {
    GTEST_SKIP() << "this launcher kills the ranks 0.5 s after a SIGTERM, in whatever they are";
  }
  MpiCommand patient = command(3, kEndlessSteps, 10, {});
  patient.mpirun_options = {"--mca", "odls_base_sigkill_timeout", "5"};  // or the launcher kills a slow save after 2 s
  const auto job = std::make_unique<Mpirun>(patient);
  wait_for_step(*job, 12);
  job->send(SIGTERM);
  end_of(*job);  // mpirun returns 1, whatever the ranks do
  ASSERT_EQ(events("exit").size(), 1U) << job->err();
  EXPECT_EQ(events("notice").front().at("message"), "sent by the launcher");
  EXPECT_EQ(expect_sound_checkpoints(), 1);
  expect_same_end(3, events("exit").front().at("run_calls").get<int>() + 20);
}

/// Two hosts and a cable between them that is cut. Nobody gets an error from MPI then.
TEST_F(SilentPeer, ACutCableNamesTheHost) {
  const VirtualHosts hosts;
  if (!hosts.work()) {
    GTEST_SKIP() << VirtualHosts::kNeeds;
  }
  if (!has_open_mpi_4()) {
    GTEST_SKIP() << "Open MPI 5: mpirun ends the job itself, with code 0, or waits for the lost host for ever";
  }
  const auto agent = directory_ / "agent.sh";
  hosts.write_agent(agent);
  MpiCommand command =
      this->command(4, kEndlessSteps, 10, {"save_every=5", "peer_timeout_ms=4000", "io_timeout_ms=4000"});
  // Without the keep-alive mpirun itself would notice after 8 minutes that it has lost a daemon.
  command.mpirun_options = joined({"--mca", "plm_rsh_agent", agent.string()},
                                  words_of("--host h1:2,h2:2 --mca oob_tcp_keepalive_time 3 --mca "
                                           "oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3"));
  command.launch_prefix = hosts.on_h0();
  Mpirun job(command);
  wait_for_step(job, 20);
  ASSERT_TRUE(hosts.set_cable(2, "down"));
  const int code = end_of(job);
  EXPECT_NE(code, 0);
  EXPECT_NE(code, 42);
  EXPECT_THAT(job.err(), ContainsRegex("no answer within [0-9.]+ s from .*rank 2 \\(h2\\), rank 3 \\(h2\\)"));
  EXPECT_GE(expect_sound_checkpoints(), 2);
  ASSERT_TRUE(hosts.set_cable(2, "up"));
  expect_same_end(3, events("save_finished").back().at("number").get<int>() + 20);
}

}  // namespace
}  // namespace reprieve::test
