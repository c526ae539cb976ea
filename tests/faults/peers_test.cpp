// SPDX-License-Identifier: BSD-3-Clause
// Ranks that fall silent: stopped, computing for long, dead. Every wait has a limit, and past it the error names the
// ranks that did not come, their hosts, and where all were last seen. The last checkpoint stays.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "faults/field_test.hpp"
#include "faults/lives.hpp"
#include "support/virtual_hosts.hpp"

namespace reprieve::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kEndless = 100'000;

class SilentPeer : public FieldTest {
 protected:
  /// What all ranks that are there must say.
  static void expect_named(const std::string& output, int rank) {
    EXPECT_THAT(output, ContainsRegex("no answer within [0-9.]+ m?s from rank " + std::to_string(rank) +
                                      " \\([^)]+\\); all ranks were last seen at step boundary [0-9]+"));
  }
};

TEST_F(SilentPeer, AStoppedRankIsNamedAtABoundary) {
  for (const int rank : {2, 0}) {
    const auto job = start(3, kEndless, 10,
                           {"save_every=5", "stop_at=17", "stop_rank=" + std::to_string(rank), "peer_timeout_ms=3000"});
    EXPECT_EQ(end_of(*job), 3) << job->err();
    expect_named(job->err(), rank);
    EXPECT_EQ(expect_sound_checkpoints(), 3);
    expect_same_end(3, 40);
    std::filesystem::remove_all(checkpoints());
  }
}

/// Other ranks wait in the middle of a save: nothing of it may be left as a checkpoint.
TEST_F(SilentPeer, AStoppedRankIsNamedInASave) {
  for (const std::string rank : {"0", "1"}) {
    const auto job =
        start(3, kEndless, 10,
              {"save_every=5", "stop_in_save=15", "stop_rank=" + rank, "io_timeout_ms=3000", "peer_timeout_ms=3000"});
    EXPECT_EQ(end_of(*job), 3) << job->err();
    EXPECT_THAT(job->err(), ContainsRegex("save.*no answer within [0-9.]+ m?s from rank " + rank + " \\("));
    EXPECT_FALSE(std::filesystem::exists(checkpoints() / "ckpt-15.h5"));
    EXPECT_GE(expect_sound_checkpoints(), 2);
    expect_same_end(3, 12);
    std::filesystem::remove_all(checkpoints());
  }
}

TEST_F(SilentPeer, ARankThatContinuesInTimeIsWaitedFor) {
  const auto job = start(2, kEndless, 10, {"save_every=5", "stop_at=12"});
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

TEST_F(SilentPeer, AComputationBeyondTheLimitIsNamed) {
  const auto job = start(3, kEndless, 0, {"save_every=5", "busy_at=17", "busy_ms=60000", "peer_timeout_ms=2000"});
  EXPECT_EQ(end_of(*job), 3) << job->err();
  expect_named(job->err(), 2);
  expect_same_end(3, 40);
}

/// When a rank dies, mpirun sends SIGTERM to the others, just as in a preemption. It must not be taken for one.
TEST_F(SilentPeer, TheTearDownAfterADeathIsNoPreemption) {
  for (const int victim : {0, 1, 2}) {
    const auto job = start(3, kEndless, 10, {"save_every=5"});
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
  MpiCommand patient = command(3, kEndless, 10, {});
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
  MpiCommand command = this->command(4, kEndless, 10, {"save_every=5", "peer_timeout_ms=4000", "io_timeout_ms=4000"});
  command.mpirun_options = joined({"--mca", "plm_rsh_agent", agent.string()}, words_of("--host h1:2,h2:2"));
  command.launch_prefix = hosts.on_h0();
  Mpirun job(command);
  wait_for_step(job, 20);
  ASSERT_TRUE(hosts.set_cable(2, "down"));
  const auto has_reported = [&] { return job.err().find("no answer within") != std::string::npos || !job.running(); };
  EXPECT_TRUE(wait_until(has_reported, std::chrono::seconds(60)));
  ASSERT_TRUE(hosts.set_cable(2, "up"));  // mpirun itself would wait for the lost host for many minutes
  const int code = end_of(job);
  EXPECT_NE(code, 0);
  EXPECT_NE(code, 42);
  EXPECT_THAT(job.err(), ContainsRegex("no answer within [0-9.]+ m?s from .*rank 2 \\(h2\\), rank 3 \\(h2\\)"));
  EXPECT_GE(expect_sound_checkpoints(), 2);
  expect_same_end(3, events("save_finished").back().at("number").get<int>() + 20);
}

// Thousands of signals a second to every rank, from before the program's main to after its end, and programs that fork
// and start others.

using namespace std::chrono_literals;

/// Sends both watched signals in turn to every rank of a job, from the moment in which it appears, some 5,000 times a
/// second, as long as it lives.
class Storm {
 public:
  explicit Storm(const Mpirun& job) : job_(job), thread_([this] { blow(); }) {}
  ~Storm() {
    over_ = true;
    thread_.join();
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

  [[nodiscard]] std::uint64_t sent() const { return sent_; }

 private:
  void blow() {
    auto look = std::chrono::steady_clock::now();
    std::map<int, pid_t> ranks;
    for (bool term = true; !over_;) {
      if (std::chrono::steady_clock::now() >= look) {  // to find the ranks costs more than to signal them
        ranks = job_.ranks();
        look = std::chrono::steady_clock::now() + 50ms;
      }
      for (int burst = 0; burst < 5; ++burst, term = !term) {  // a sleep lasts longer than it should
        for (const auto& [rank, pid] : ranks) {
          sent_ += ::kill(pid, term ? SIGTERM : SIGUSR1) == 0 ? 1 : 0;
        }
      }
      std::this_thread::sleep_for(200us);
    }
  }

  const Mpirun& job_;
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> sent_{0};
  std::thread thread_;
};

class SignalStorm : public FieldTest {
 protected:
  /// Ranks start with the signals ignored, as a batch script would do it: before its main nobody else can help a
  /// program.
  [[nodiscard]] std::unique_ptr<Mpirun> start_in_storm(int steps, int step_ms, const Options& options) const {
    MpiCommand started = command(3, steps, step_ms, options);
    started.rank_prefix = {"env", "--ignore-signal=TERM", "--ignore-signal=USR1"};
    return std::make_unique<Mpirun>(started);
  }
};

/// A job that saves for the notices and continues has no rest: every few steps there is a save, and then it leaves.
class StormOverSaves : public SignalStorm, public testing::WithParamInterface<std::string> {};

TEST_P(StormOverSaves, NothingIsLost) {
  std::uint64_t sent = 0;
  int steps = 0;
  for (int start = 0; start < 2; ++start) {
    const auto job = start_in_storm(
        kEndless, 2, {"keep_running=12", "save_every=3", "elements=100000", "own_handlers=1", GetParam()});
    const Storm storm(*job);
    EXPECT_EQ(end_of(*job), 42) << job->err();
    sent += storm.sent();
    EXPECT_GE(expect_sound_checkpoints(), 1);
    EXPECT_EQ(events("exit").size(), static_cast<std::size_t>(start + 1) * 13);
    steps = events("exit").back().at("run_calls").get<int>();
  }
  EXPECT_GT(sent, 1000U);
  RecordProperty("signals", static_cast<int>(sent));
  expect_same_end(3, steps + 10, {"elements=100000"});
}

INSTANTIATE_TEST_SUITE_P(Saves, StormOverSaves, testing::Values("background=0", "background=1"),
                         [](const auto& instance) { return instance.param.substr(0, 10) + instance.param.substr(11); });

TEST_F(SignalStorm, TheProgramsOwnHandlersAreCalled) {
  // It ends by itself: the one preemption that it continues after was the last that it may act on.
  const auto job = start(2, 200, 20, {"keep_running=1000000", "own_handlers=1"});
  std::uint64_t sent = 0;
  {
    ASSERT_TRUE(wait_until([&] { return job->out().find("step 1\n") != std::string::npos; }, kLimit)) << job->err();
    const Storm storm(*job);
    EXPECT_EQ(end_of(*job), 0) << job->err();
    sent = storm.sent();
  }
  std::istringstream handled(job->out().substr(job->out().find("handled ") + 8));
  std::uint64_t count = 0;
  handled >> count;
  EXPECT_GT(count, 100U) << "of " << sent;
  EXPECT_EQ(digest_in(job->out()), digest_of(200));
}

class Children : public FieldTest {
 protected:
  [[nodiscard]] std::string child_report() const { return read_text(directory_ / "child"); }
  /// The number behind a word in the report.
  [[nodiscard]] pid_t reported(const std::string& word) const {
    const std::string report = child_report();
    return std::stoi(report.substr(report.find(word) + word.size()));
  }
};

/// A forked child is no rank: it can neither save nor end the handler, a SIGTERM ends it when the rank is dead, and it
/// does not keep the lock of the directory then.
TEST_F(Children, AForkedChildTakesNoPart) {
  const auto job = start(2, kEndless, 10, {"fork_at=7", "fork_rank=0", "save_every=5"});
  wait_for_step(*job, 20);
  ASSERT_TRUE(wait_until([&] { return child_report().find("pid ") != std::string::npos; }, kLimit)) << job->err();
  EXPECT_THAT(child_report(), HasSubstr("refused: "));
  EXPECT_THAT(child_report(), HasSubstr("called in a child that rank 0 forked"));
  EXPECT_THAT(child_report(), Not(HasSubstr("unwinding")));
  EXPECT_FALSE(std::filesystem::exists(checkpoints() / "ckpt-77777.h5"));

  const pid_t child = reported("pid ");
  ASSERT_EQ(::kill(reported("parent "), SIGKILL), 0);
  job->send(SIGKILL);  // mpirun would wait for the child
  ASSERT_EQ(::kill(child, 0), 0) << "it has not outlived its parent, so that nothing is shown";
  const auto next = start(2, 40, 0, {"lock_timeout_ms=10000"});
  EXPECT_EQ(next->wait(kLimit), 0) << next->err();
  EXPECT_EQ(digest_in(next->out()), digest_of(40));

  ASSERT_EQ(::kill(child, SIGTERM), 0);
  EXPECT_TRUE(wait_until([&] { return ::kill(child, 0) != 0; }, 30s)) << "the child has not ended by SIGTERM";
  EXPECT_THAT(child_report(), Not(HasSubstr("survived")));
}

/// A SIGTERM to the child alone is no notice to the job, and does not end a worker that the rank still needs.
TEST_F(Children, ASignalToAForkedChildIsNoNotice) {
  const auto job = start(2, 60, 20, {"fork_at=7", "fork_rank=0"});
  ASSERT_TRUE(wait_until([&] { return child_report().find("pid ") != std::string::npos; }, kLimit)) << job->err();
  const pid_t child = reported("pid ");
  ASSERT_EQ(::kill(child, SIGTERM), 0);
  std::this_thread::sleep_for(100ms);
  EXPECT_THAT(read_text("/proc/" + std::to_string(child) + "/stat"), HasSubstr(") S")) << "it does not sleep any more";
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(end_of(*job), 0) << job->err();
  EXPECT_TRUE(events("notice").empty());
}

TEST_F(Children, AStartedProgramInheritsNoFile) {
  const auto job = start(2, 20, 0, {"exec_at=12", "exec_rank=0", "background=1", "save_every=2", "elements=4000000"});
  EXPECT_EQ(end_of(*job), 0) << job->err();
  const std::string files = read_text(directory_ / "open_files");
  EXPECT_THAT(files, HasSubstr("open_files"));  // its own output
  for (const std::string name : {"ckpt", ".reprieve", ".chieftemp", "events.jsonl", "memfd"}) {
    EXPECT_THAT(files, Not(HasSubstr(name)));
  }
}

// What a process holds that saves over and over. REPRIEVE_FAULTS_SECONDS: for how long (10 unless it is set).

namespace fs = std::filesystem;

std::size_t count_in(const fs::path& directory) {
  std::error_code none;
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory, none), fs::directory_iterator()));
}

/// What one rank holds, to see whether it grows.
struct Resources {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t memory_kib = 0;
};

Resources resources_of(pid_t pid) {
  const fs::path process = "/proc/" + std::to_string(pid);
  Resources resources{count_in(process / "fd"), count_in(process / "task"), 0};
  std::ifstream status(process / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      resources.memory_kib = std::stoul(line.substr(6));
    }
  }
  return resources;
}

using Endurance = FieldTest;

/// One process that saves over and over, by both ways, for requests and preemptions: it must hold no more at the end
/// than after it has warmed up.
TEST_F(Endurance, NothingGrows) {
  const auto job = start(2, 10'000'000, 1, {"save_every=5", "keep_running=1000000", "background=1", "elements=20000"});
  wait_for_step(*job, 200);
  const auto ranks = job->ranks();
  ASSERT_EQ(ranks.size(), 2U);
  const auto take = [&] {
    std::map<int, Resources> all;
    for (const auto& [rank, pid] : ranks) {
      all[rank] = resources_of(pid);
    }
    return all;
  };
  const std::map<int, Resources> before = take();
  const int signals = 10 * count_from("REPRIEVE_FAULTS_SECONDS", 10);
  for (int sent = 0; sent < signals; ++sent) {
    ASSERT_TRUE(job->send_to_rank(sent % 2, SIGUSR1)) << job->err();
    std::this_thread::sleep_for(100ms);
  }
  // The moment counts: a save in the background has a thread and files open.
  const bool back = wait_until(
      [&] {
        const auto now = take();
        return std::all_of(now.begin(), now.end(), [&](const auto& rank) {
          const Resources& then = before.at(rank.first);
          return rank.second.descriptors <= then.descriptors && rank.second.threads <= then.threads;
        });
      },
      30s);
  const auto after = take();
  for (const auto& [rank, then] : before) {
    EXPECT_TRUE(back) << "rank " << rank << ": descriptors " << then.descriptors << " -> " << after.at(rank).descriptors
                      << ", threads " << then.threads << " -> " << after.at(rank).threads;
    EXPECT_LT(after.at(rank).memory_kib, then.memory_kib + 20'000) << "rank " << rank;
  }
  std::cout << "saves " << events("save_finished").size() << ", preemptions " << events("notice").size() << std::endl;
  job->send_to_ranks(SIGKILL);
  end_of(*job);
}

}  // namespace
}  // namespace reprieve::test
