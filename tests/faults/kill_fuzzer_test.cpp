// SPDX-License-Identifier: BSD-3-Clause
// Signals of all kinds, at random moments, to a rank, to all of them, to mpirun and to `reprieve run`, while
// checkpoints are written in all ways that the settings offer, on changing numbers of ranks. Each start compares every
// restored element with what it must be. REPRIEVE_FUZZ_ROUNDS sets how many lives, REPRIEVE_SEED which ones.

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <random>
#include <thread>

#include "faults/field_test.hpp"
#include "faults/lives.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kFuzzerSteps = 1'000'000;
/// Then another run begins: each start computes all steps of its run again.
constexpr int kLivesOfARun = 100;
const std::vector<std::string> kFuzzerElements{"elements=30000"};

/// Signals that a job meets: from schedulers, terminals, users and its own mistakes.
constexpr std::array kFuzzerSignals{SIGKILL, SIGTERM, SIGINT,  SIGHUP,  SIGUSR1,
                                    SIGUSR2, SIGQUIT, SIGABRT, SIGSEGV, SIGSTOP};

/// A process that a signal ends leaves no memory image of itself.
void leave_no_core_files() {
  const rlimit none{0, 0};
  ASSERT_EQ(setrlimit(RLIMIT_CORE, &none), 0);
}

std::string command_name(pid_t pid) {
  std::string name = read_text("/proc/" + std::to_string(pid) + "/comm");
  return name.substr(0, name.find('\n'));
}

class KillFuzzer : public FieldTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override { leave_no_core_files(); }

  [[nodiscard]] static bool supervised() { return GetParam(); }

  int random(int limit) { return std::uniform_int_distribution(0, limit - 1)(random_); }
  std::string flag() { return random(2) == 0 ? "true" : "false"; }
  template <class T, std::size_t N>
  T one_of(const std::array<T, N>& choices) {
    return choices.at(static_cast<std::size_t>(random(static_cast<int>(N))));
  }

  Environment random_settings() {
    const std::string writer = random(4) == 0 ? "mpio" : "direct";
    return {{"REPRIEVE_CHECKPOINTS_WRITER", writer},
            {"REPRIEVE_CHECKPOINTS_BACKGROUND", writer == "direct" ? flag() : "false"},
            {"REPRIEVE_CHECKPOINTS_RECYCLE", flag()},
            {"REPRIEVE_CHECKPOINTS_RESERVE", flag()},
            {"REPRIEVE_CHECKPOINTS_MAX_TO_KEEP", std::to_string(1 + random(3))},
            {"REPRIEVE_CHECKPOINTS_IO", one_of(std::array<std::string, 3>{"auto", "page_cache", "direct"})}};
  }

  std::unique_ptr<Mpirun> start_life() {
    std::vector<std::string> options = kFuzzerElements;
    options.insert(options.end(), {"check_restored=1", "save_every=" + std::to_string(1 + random(8))});
    MpiCommand what = command(1 + random(3), kFuzzerSteps, 1, options);
    what.environment = random_settings();
    for (const auto& [name, value] : what.environment) {
      story_ += " " + name.substr(21) + "=" + value.value_or("");
    }
    what.mpirun_options = {"--mca", "odls_base_sigkill_timeout", "0"};
    if (supervised()) {
      what.launch_prefix = {program("reprieve"), "run", "--"};
    }
    return std::make_unique<Mpirun>(what);
  }

  [[nodiscard]] std::uintmax_t log_size() const {
    std::error_code none;
    const auto size = std::filesystem::file_size(checkpoints() / "events.jsonl", none);
    return none ? 0 : size;
  }

  void sleep_at_most(std::chrono::milliseconds longest) {
    std::this_thread::sleep_for(std::chrono::microseconds(random(static_cast<int>(longest.count()) * 1000)));
  }

  /// mpirun, which may be a child of the supervisor.
  static std::vector<pid_t> launchers(const Mpirun& job) {
    std::vector<pid_t> found = job.descendants();
    found.push_back(job.pid());
    std::erase_if(found, [](pid_t pid) {
      const std::string name = command_name(pid);
      return name != "mpirun" && name != "orterun";
    });
    return found;
  }

  void disturb(Mpirun& job) {
    const int signal = one_of(kFuzzerSignals);
    std::vector<pid_t> victims;
    const auto ranks = job.ranks();
    switch (random(4)) {
      case 0:
        victims = launchers(job);
        story_ += ", launcher";
        break;
      case 1:
        victims = {job.pid()};
        story_ += ", first process";
        break;
      case 2:
        for (const auto& [rank, pid] : ranks) {
          victims.push_back(pid);
        }
        story_ += ", all ranks";
        break;
      default:
        if (!ranks.empty()) {
          const auto victim = std::next(ranks.begin(), random(static_cast<int>(ranks.size())));
          victims = {victim->second};
          story_ += ", rank " + std::to_string(victim->first);
        }
    }
    story_ += " " + std::string(strsignal(signal));
    send(victims, signal);
    if (signal == SIGSTOP) {
      sleep_at_most(300ms);
      send(victims, SIGCONT);
    }
  }

  static void send(const std::vector<pid_t>& victims, int signal) {
    for (const pid_t pid : victims) {
      ::kill(pid, signal);
    }
  }

  /// One life: start, some work, up to three signals, and an end.
  void live() {
    story_.clear();
    const auto size = log_size();
    const auto job = start_life();
    ASSERT_TRUE(wait_until([&] { return log_size() > size || !job->running(); }, kLimit)) << story_;
    sleep_at_most(one_of(std::array{20ms, 250ms, 800ms}));
    for (int left = 1 + random(3); left > 0 && job->running(); --left) {
      disturb(*job);
      sleep_at_most(150ms);
    }
    if (job->running()) {
      job->send(random(2) == 0 ? SIGTERM : SIGKILL);  // not everything that was sent is a reason to end
    }
    const bool ended = wait_until([&] { return !job->running() || (!supervised() && job->ranks().empty()); }, kLimit);
    EXPECT_TRUE(ended) << "hangs after" << story_ << "\n" << job->out() << job->err();
    if (ended && !job->wait(30s)) {  // Open MPI's launcher can hang after the death of its ranks
      job->send(SIGKILL);
    }
    EXPECT_TRUE(job->wait_for_descendants(kLimit)) << "processes are left after" << story_;
    EXPECT_THAT(job->out() + job->err(), Not(HasSubstr("wrong element"))) << story_;
  }

  /// So many lives of one run.
  void live_and_end(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      live();
      ASSERT_FALSE(HasFailure()) << "in round " << round;
    }
    expect_nothing_lost(checkpoints());
    const auto saved = events("save_finished");
    ASSERT_FALSE(saved.empty());
    restores_ += events("restore").size();
    checkpoints_ += saved.size();
    expect_same_end(2, saved.back().at("number").get<int>() + 20, kFuzzerElements);
    std::filesystem::remove_all(checkpoints());
  }

  std::mt19937 random_{static_cast<unsigned>(count_from("REPRIEVE_SEED", 1) + (supervised() ? 1000 : 0))};
  std::string story_;  ///< of the present life, for messages
  std::size_t restores_ = 0;
  std::size_t checkpoints_ = 0;
};

TEST_P(KillFuzzer, NothingIsLostAndNothingIsMixed) {
  const int rounds = count_from("REPRIEVE_FUZZ_ROUNDS", supervised() ? 25 : 40);
  for (int left = rounds; left > 0; left -= kLivesOfARun) {
    live_and_end(std::min(left, kLivesOfARun));
    ASSERT_FALSE(HasFailure()) << left << " rounds before the end";
  }
  std::cout << "rounds of the kill fuzzer: " << rounds << ", restores: " << restores_
            << ", checkpoints: " << checkpoints_ << "\n";
}

INSTANTIATE_TEST_SUITE_P(Faults, KillFuzzer, testing::Bool(),
                         [](const auto& supervised) { return supervised.param ? "Supervised" : "Direct"; });

}  // namespace
}  // namespace reprieve::test
