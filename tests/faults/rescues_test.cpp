// SPDX-License-Identifier: BSD-3-Clause
// A notice in a step that never ends, or while a rank is stopped: the ranks bring their near copies alone, and then the
// hosts go away with all that lay in memory. The next life goes on at the boundary that was copied.
// REPRIEVE_RESCUES sets how many, of each kind.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "faults/lives.hpp"
#include "manager/brought_parts.hpp"
#include "manager/near_place.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kRescueRanks = 2;

class Rescues : public testing::TestWithParam<bool> {
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
      if (ranks[part.name.copy.number].size() == kRescueRanks) {
        numbers.insert(part.name.copy.number);
      }
    }
    return numbers;
  }

  [[nodiscard]] std::set<std::uint64_t> brought() const {
    return whole(manager::brought_parts(core::Directory::open(lives_.directory())));
  }

  /// That of which no rank has a newer part: nothing is under way any more.
  [[nodiscard]] std::optional<std::uint64_t> settled() const {
    for (const manager::NearFolder& folder : manager::near_folders(lives_.near())) {
      const auto numbers = whole(folder.parts);
      const bool is_newest = std::ranges::all_of(folder.parts, [&](const manager::FoundPart& part) {
        return !numbers.empty() && part.name.copy.number <= *numbers.rbegin();
      });
      if (!numbers.empty() && is_newest) {
        return *numbers.rbegin();
      }
    }
    return std::nullopt;
  }

  void tell_and_wait(const Life& life, bool is_stopped) {
    const int stopped = std::uniform_int_distribution(0, kRescueRanks - 1)(random_);
    if (is_stopped) {
      ASSERT_TRUE(life.mpirun->send_to_rank(stopped, SIGSTOP));
      ASSERT_TRUE(life.mpirun->send_to_rank(1 - stopped, SIGTERM));
    } else {
      life.mpirun->send_to_ranks(SIGTERM);
    }
    EXPECT_TRUE(wait_until([&] { return !brought().empty() || !life.job().running(); }, 120s));
  }

  /// A life that ends in a rescue. Returns the boundary that it was copied at.
  std::uint64_t live_and_be_rescued(bool is_stopped) {
    const std::string quick = std::to_string(std::uniform_int_distribution(3, 40)(random_));
    const Life life = lives_.start("long", {{"STEPPER_LONG", quick}});
    std::optional<std::uint64_t> boundary;
    EXPECT_TRUE(wait_until([&] { return (all_hang() && (boundary = settled())) || !life.job().running(); }, 120s));
    EXPECT_TRUE(life.job().running()) << life.job().out() << life.job().err();
    tell_and_wait(life, is_stopped);
    EXPECT_TRUE(life.job().running()) << life.job().out() << life.job().err();
    life.mpirun->send_to_ranks(SIGKILL);
    Lives::wait_for_death(life);
    lives_.lose_memory();
    for (const char* mark : {"hangs.0", "hangs.1"}) {
      fs::remove(lives_.directory() / mark);
    }
    return boundary.value_or(0);
  }

  Lives lives_{kRescueRanks};
  std::mt19937 random_{static_cast<unsigned>(count_from("REPRIEVE_SEED", 1))};
};

TEST_P(Rescues, EachLifeGoesOnAtTheBoundaryThatWasCopied) {
  const int rescues = count_from("REPRIEVE_RESCUES", 2);
  std::uint64_t boundary = 0;
  for (int life = 0; life < rescues; ++life) {
    const std::uint64_t next = live_and_be_rescued(GetParam());
    if (life > 0) {
      EXPECT_EQ(lives_.restored_last(), boundary) << "in life " << life;
    }
    EXPECT_GT(next, boundary);
    boundary = next;
    ASSERT_FALSE(HasFailure()) << "in life " << life;
  }
  lives_.expect_same_end();
  EXPECT_EQ(lives_.restored_last(), boundary);
  std::cout << "rescues: " << rescues << "\n";
}

INSTANTIATE_TEST_SUITE_P(Faults, Rescues, testing::Bool(),
                         [](const auto& stopped) { return stopped.param ? "WithOneRankStopped" : "InALongStep"; });

}  // namespace
}  // namespace reprieve::test
