// SPDX-License-Identifier: BSD-3-Clause
// Deaths at random moments, of a rank, of all at once, or of mpirun. REPRIEVE_RANDOM_KILLS sets how many, on each
// number of ranks, REPRIEVE_SEED which ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <thread>

#include "faults/lives.hpp"

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
  const int kills = count_from("REPRIEVE_RANDOM_KILLS", GetParam() == 1 ? 80 : 35);
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
  const int kills = count_from("REPRIEVE_RANDOM_KILLS", GetParam() == 1 ? 180 : 60);
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

}  // namespace
}  // namespace reprieve::test
