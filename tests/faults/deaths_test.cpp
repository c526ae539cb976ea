// SPDX-License-Identifier: BSD-3-Clause
// Deaths at random moments, of a rank, of all at once, or of mpirun. REPRIEVE_RANDOM_KILLS sets how many, on each
// number of ranks, REPRIEVE_SEED which ones.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "core/failpoint.hpp"
#include "faults/field_test.hpp"
#include "faults/lives.hpp"
#include "manager/node_directory.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

class RandomKills : public testing::TestWithParam<int> {
 protected:
  std::chrono::microseconds random_time(std::chrono::microseconds longest) {
    return std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(0, longest.count())(random_));
  }

  int random(int limit) { return std::uniform_int_distribution(0, limit - 1)(random_); }

  void kill(const Life& life) {
    const int choice = random(3);
    if (!life.mpirun || choice == 0) {
      life.job().send(SIGKILL);
    } else if (choice == 1) {
      life.mpirun->send_to_ranks(SIGKILL);
    } else {
      life.mpirun->send_to_rank(random(GetParam()), SIGKILL);
    }
  }

  static std::size_t log_size(const Lives& lives) {
    std::error_code none;
    const auto size = std::filesystem::file_size(lives.directory() / "events.jsonl", none);
    return none ? 0 : size;
  }

  /// A life in this mode, which ends in the middle of whatever it does.
  void live_and_die(Lives& lives, const std::string& mode, std::chrono::microseconds longest) {
    const std::size_t size = log_size(lives);
    const Life now = lives.start(mode);
    // The first line of a life is its start: from then on anything may be under way.
    ASSERT_TRUE(wait_until([&] { return log_size(lives) > size || !now.job().running(); }, 120s));
    ASSERT_TRUE(now.job().running()) << now.job().out() << now.job().err();
    std::this_thread::sleep_for(random_time(longest));
    kill(now);
    Lives::wait_for_death(now);
  }

  std::mt19937 random_{static_cast<unsigned>(count_from("REPRIEVE_SEED", 1) + GetParam())};
};

TEST_P(RandomKills, NothingIsLost) {
  const int kills = count_from("REPRIEVE_RANDOM_KILLS", GetParam() == 1 ? 20 : 10);
  Lives lives(GetParam(), "/var/tmp");
  const std::vector<std::string> modes{"recycle", "files", "background", "local", "far"};
  // On a slow machine lives may end before they have saved: then there are more of them, each longer.
  for (int life = 0; life < kills || (!lives.have_saved() && life < 10 * kills); ++life) {
    // The start, with the restore, is short.
    const auto longest = life % 2 == 0 ? 10ms : 150ms;
    live_and_die(lives, modes[static_cast<std::size_t>(random(5))], longest * std::max(1, life - kills + 2));
    ASSERT_FALSE(HasFailure()) << "in life " << life;
  }
  lives.expect_nothing_lost();
  lives.expect_same_end();
  std::cout << "random kills on " << GetParam() << " ranks: " << kills << "\n";
}

/// Of node-local copies no more is lost than what came after the newest that is complete, and that is one interval.
/// Each value of the state depends on all steps before: a mixture of two copies would end otherwise.
TEST_P(RandomKills, TheNewestCompleteLocalCopyComesBack) {
  const int kills = count_from("REPRIEVE_RANDOM_KILLS", GetParam() == 1 ? 30 : 10);
  Lives lives(GetParam(), "/var/tmp");
  std::uint64_t there = 0;
  // On a slow machine lives may end before they have taken a copy: then there are more of them, each longer.
  for (int life = 0; life < kills || (there == 0 && life < 10 * kills); ++life) {
    live_and_die(lives, random(2) == 0 ? "local" : "far", 200ms * std::max(1, life - kills + 2));
    lives.expect_restored_at_least(there);
    there = lives.newest_whole();
    lives.expect_one_copy_under_way();
    ASSERT_FALSE(HasFailure()) << "in life " << life;
  }
  EXPECT_GT(there, 0U);
  lives.expect_same_end();
  std::cout << "random kills of runs with node-local copies on " << GetParam() << " ranks: " << kills << "\n";
}

INSTANTIATE_TEST_SUITE_P(Faults, RandomKills, testing::Values(1, 2, 3),
                         [](const auto& ranks) { return "On" + std::to_string(ranks.param) + "Ranks"; });

// A notice in a step that never ends, or while a rank is stopped: the ranks flush their node-local copies alone, and
// then the hosts go away with all that lay in memory. The next life resumes at the boundary that was copied.
// REPRIEVE_EMERGENCIES sets how many, of each kind.

namespace fs = std::filesystem;

constexpr int kEmergencyRanks = 2;

class EmergencySaveFaults : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] bool all_hang() const {
    return fs::exists(lives_.directory() / "hangs.0") && fs::exists(lives_.directory() / "hangs.1");
  }

  /// The numbers of the copies of which all ranks have complete parts here.
  [[nodiscard]] static std::set<std::uint64_t> whole(const std::vector<manager::FoundPart>& parts) {
    std::map<std::uint64_t, std::set<int>> ranks;
    std::set<std::uint64_t> numbers;
    for (const manager::FoundPart& part : parts) {
      ranks[part.name.copy.number].insert(part.name.rank);
      if (ranks[part.name.copy.number].size() == kEmergencyRanks) {
        numbers.insert(part.name.copy.number);
      }
    }
    return numbers;
  }

  [[nodiscard]] std::set<std::uint64_t> flushed() const {
    return whole(manager::flushed_parts(core::Directory::open(lives_.directory())));
  }

  /// The newest in the memory of the hosts.
  [[nodiscard]] std::optional<std::uint64_t> newest_copy() const {
    for (const manager::LocalFolder& folder : manager::local_folders(lives_.local())) {
      if (const auto numbers = whole(folder.parts); !numbers.empty()) {
        return *numbers.rbegin();
      }
    }
    return std::nullopt;
  }

  void tell_and_wait(const Life& life, bool is_stopped) {
    const int stopped = std::uniform_int_distribution(0, kEmergencyRanks - 1)(random_);
    if (is_stopped) {
      ASSERT_TRUE(life.mpirun->send_to_rank(stopped, SIGSTOP));
      ASSERT_TRUE(life.mpirun->send_to_rank(1 - stopped, SIGTERM));
    } else {
      life.mpirun->send_to_ranks(SIGTERM);
    }
    EXPECT_TRUE(wait_until([&] { return !flushed().empty() || !life.job().running(); }, 120s));
  }

  /// At which boundaries the state may have been copied. Nearly always one: a thread may have been at work at the
  /// notice.
  struct Boundary {
    std::uint64_t at_notice = 0;
    std::uint64_t at_death = 0;
  };

  /// A life that ends in an emergency save.
  Boundary live_and_be_saved(bool is_stopped) {
    const std::string quick = std::to_string(std::uniform_int_distribution(3, 40)(random_));
    const Life life = lives_.start("long", {}, {"hang_after=" + quick});
    std::optional<std::uint64_t> boundary;
    EXPECT_TRUE(wait_until([&] { return (all_hang() && (boundary = newest_copy())) || !life.job().running(); }, 120s));
    EXPECT_TRUE(life.job().running()) << life.job().out() << life.job().err();
    tell_and_wait(life, is_stopped);
    EXPECT_TRUE(life.job().running()) << life.job().out() << life.job().err();
    life.mpirun->send_to_ranks(SIGKILL);
    Lives::wait_for_death(life);
    const Boundary copied{boundary.value_or(0), newest_copy().value_or(0)};
    lives_.lose_memory();
    for (const char* mark : {"hangs.0", "hangs.1"}) {
      fs::remove(lives_.directory() / mark);
    }
    return copied;
  }

  void expect_restored(const Boundary& copied) const {
    const std::uint64_t restored = lives_.restored_last().value_or(0);
    EXPECT_GE(restored, copied.at_notice);
    EXPECT_LE(restored, copied.at_death);
  }

  Lives lives_{kEmergencyRanks};
  std::mt19937 random_{static_cast<unsigned>(count_from("REPRIEVE_SEED", 1))};
};

TEST_P(EmergencySaveFaults, EachLifeContinuesAtTheBoundaryThatWasCopied) {
  int uncertain = 0;
  const int emergencies = count_from("REPRIEVE_EMERGENCIES", 2);
  Boundary boundary;
  for (int life = 0; life < emergencies; ++life) {
    const Boundary next = live_and_be_saved(GetParam());
    if (life > 0) {
      expect_restored(boundary);
    }
    EXPECT_GT(next.at_notice, boundary.at_death);
    uncertain += next.at_notice < next.at_death ? 1 : 0;
    boundary = next;
    ASSERT_FALSE(HasFailure()) << "in life " << life;
  }
  lives_.expect_same_end(boundary.at_death);
  expect_restored(boundary);
  std::cout << "emergency saves: " << emergencies << ", with a thread at work at the notice: " << uncertain << "\n";
}

INSTANTIATE_TEST_SUITE_P(Faults, EmergencySaveFaults, testing::Bool(),
                         [](const auto& stopped) { return stopped.param ? "WithOneRankStopped" : "InALongStep"; });

// Death at every named place of a start, a restore, a save, a commit, the clean-up, a node-local copy, its way into a
// checkpoint, and the exit: of rank 0, of another rank, of all, and of mpirun. Each is a life of the same run, which
// must not lose anything.

enum class Who { rank_0, everyone };

/// Who comes to a place, and in which mode of the program.
struct Place {
  std::string name;
  std::string mode;
  Who who = Who::everyone;
};

/// In the order of the lives. Those of a start or a restore come last, when there is something to restore.
const std::vector<Place> kPlaces{
    {"save.staged", "recycle", Who::rank_0},
    {"save.laid_out", "recycle"},
    {"save.block_written", "recycle"},
    {"save.pieces_exchanged", "pieces"},
    {"save.part_written", "recycle"},
    {"save.checksums_written", "recycle", Who::rank_0},
    {"save.record_written", "recycle", Who::rank_0},
    {"save.part_durable", "recycle"},
    {"save.durable", "recycle"},
    {"commit.renamed", "recycle", Who::rank_0},
    {"commit.durable", "recycle", Who::rank_0},
    {"commit.done", "recycle"},
    {"retire.begun", "recycle", Who::rank_0},
    {"retire.recycled_renamed", "recycle", Who::rank_0},
    {"retire.recycled_void", "recycle", Who::rank_0},
    {"retire.done", "recycle", Who::rank_0},
    {"save.recycled_taken", "recycle", Who::rank_0},
    {"save.copied", "background"},
    {"save.part_written", "background"},
    {"save.part_durable", "background"},
    {"save.durable", "background"},
    {"commit.renamed", "background", Who::rank_0},
    {"save.files_written", "files"},
    {"retire.file_removed", "files", Who::rank_0},
    {"open.recovered", "files", Who::rank_0},
    {"open.locked", "recycle", Who::rank_0},
    {"open.tidied", "recycle", Who::rank_0},
    {"restore.index_read", "recycle"},
    {"restore.values_read", "recycle"},
    {"restore.done", "recycle"},
    {"local.copied", "local"},
    {"local.checksums_known", "local"},
    {"local.record_written", "local"},
    {"local.received", "far"},
    {"local.partner_record_written", "far"},
    {"drain.begun", "far", Who::rank_0},
    {"drain.part_written", "far"},
    {"drain.completed", "far", Who::rank_0},
    {"drain.committed", "far", Who::rank_0},
    {"exit.saved", "preempt"},
    {"exit.met", "preempt"},
};

TEST(Failpoints, TheTableIsComplete) {
  std::set<std::string> known(core::kFailpointNames.begin(), core::kFailpointNames.end());
  EXPECT_EQ(known.size(), core::kFailpointNames.size());
  std::set<std::string> used;
  for (const Place& place : kPlaces) {
    EXPECT_TRUE(known.contains(place.name)) << place.name;
    used.insert(place.name);
  }
  EXPECT_EQ(used, known);
}

class Failpoints : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
#ifndef REPRIEVE_FAILPOINTS
    GTEST_SKIP() << "this build has no failpoints: the presets dev and asan have";
#endif
  }

  void die(const Place& place, const std::string& victim) {
    SCOPED_TRACE(place.name + ", " + place.mode);
    const auto mark = lives_.directory().parent_path() / "mark";
    const Life life = lives_.start(
        place.mode,
        {{"REPRIEVE_FAILPOINT", place.name}, {"REPRIEVE_KILL_RANK", victim}, {"REPRIEVE_KILL_MARK", mark.string()}});
    Lives::wait_for_death(life);
    EXPECT_TRUE(std::filesystem::remove(mark)) << "nobody came there\n" << life.job().out() << life.job().err();
    ++deaths_;
  }

  Lives lives_{2};
  int deaths_ = 0;
};

TEST_P(Failpoints, NothingIsLost) {
  const std::string& victim = GetParam();
  // After the death of mpirun chance decides where its ranks die: every third place does, unless REPRIEVE_EVERY_PLACE
  // is set.
  const std::size_t stride = victim == "mpirun" && std::getenv("REPRIEVE_EVERY_PLACE") == nullptr ? 3 : 1;
  for (std::size_t at = 0; at < kPlaces.size(); at += stride) {
    const Place& place = kPlaces[at];
    // Where rank 0 alone comes, the death of all is his.
    if (place.who == Who::rank_0 && (victim == "1" || victim == "all")) {
      continue;
    }
    if (place.name == "open.recovered") {
      die({"commit.renamed", "files"}, "0");  // without mpirun, rank 0 would live on and leave nothing to recover
    }
    if (place.name.starts_with("drain.")) {
      lives_.live_for_copies("far");
    }
    die(place, victim);
    ASSERT_FALSE(HasFailure());
  }
  lives_.expect_nothing_lost();
  lives_.expect_same_end();
  std::cout << "failpoints, " << victim << ": " << deaths_ << " deaths\n";
}

INSTANTIATE_TEST_SUITE_P(Faults, Failpoints, testing::Values("0", "1", "all", "mpirun"), [](const auto& victim) {
  return victim.param == "0" ? "OfRank0"
                             : (victim.param == "1" ? "OfAnotherRank" : (victim.param == "all" ? "OfAll" : "OfMpirun"));
});

// Signals of all kinds, at random moments, to a rank, to all of them, to mpirun and to `reprieve run`, while
// checkpoints are written in all ways that the settings offer, on changing numbers of ranks. Each start compares every
// restored element with what it must be. REPRIEVE_FUZZ_ROUNDS sets how many lives, REPRIEVE_SEED which ones.

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
