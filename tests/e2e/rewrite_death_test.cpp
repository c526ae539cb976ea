// SPDX-License-Identifier: BSD-3-Clause
// A rank or mpirun dies at a random moment while the file of a retired checkpoint is rewritten: the next start finds
// the newest committed checkpoint, or one that was being committed just then, complete, with no value of another one.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "support/process.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

class RewriteDeath : public ::testing::TestWithParam<int> {
 protected:
  /// The number in the last line that begins with a word; 0 if there is none.
  static std::uint64_t last(const Mpirun& job, const std::string& word) {
    std::istringstream lines(job.out());
    std::uint64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(word + " ")) {
        number = std::stoull(line.substr(word.size()));
      }
    }
    return number;
  }

  static bool kills_mpirun(int life) { return life % 3 == 0; }

  /// Restores, saves until a few checkpoints are committed, and dies a little later. Returns what was restored and what
  /// was committed last.
  std::pair<std::uint64_t, std::uint64_t> live_and_die(int life) {
    Mpirun job({.ranks = GetParam(), .arguments = {program("e2e_rewriter"), directory_ / "run"}});
    const auto committed = [&] {
      return last(job, "committed") >= last(job, "restored") + 3 && last(job, "committed") > 0;
    };
    EXPECT_TRUE(wait_until([&] { return committed() || !job.running(); }, 120s));
    EXPECT_TRUE(job.running()) << job.out() << job.err();
    // Not to wait for anything: the moment is to be another one each time.
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(0, 60)(random_)));
    if (kills_mpirun(life)) {
      job.send(SIGKILL);
    } else {
      EXPECT_TRUE(job.send_to_rank(std::uniform_int_distribution(0, GetParam() - 1)(random_), SIGKILL));
    }
    EXPECT_TRUE(job.wait(120s).has_value());
    EXPECT_TRUE(job.wait_for_descendants(60s));
    return {last(job, "restored"), last(job, "committed")};
  }

  TemporaryDirectory directory_{"/var/tmp"};
  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

TEST_P(RewriteDeath, AtRandomMoments) {
  std::uint64_t committed = 0;
  for (int life = 0; life < 8; ++life) {
    const auto [restored, last_committed] = live_and_die(life);
    EXPECT_GE(restored, committed) << "in life " << life;
    // The one after may have been committed without a word of it. The ranks of a killed mpirun continue for some
    // seconds.
    if (life > 0 && !kills_mpirun(life - 1)) {
      EXPECT_LE(restored, committed + 1) << "in life " << life;
    }
    committed = std::max(committed, last_committed);
    if (HasFailure()) {
      return;
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "run")) {
    EXPECT_EQ(entry.path().string().find(".corrupt"), std::string::npos) << entry.path();
  }
}

INSTANTIATE_TEST_SUITE_P(Storage, RewriteDeath, ::testing::Values(1, 2, 3),
                         [](const auto& ranks) { return std::to_string(ranks.param) + "Ranks"; });

}  // namespace
}  // namespace reprieve::test
