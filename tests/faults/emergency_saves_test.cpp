// SPDX-License-Identifier: BSD-3-Clause
// A notice in a step that never ends, or while a rank is stopped: the ranks flush their node-local copies alone, and
// then the hosts go away with all that lay in memory. The next life resumes at the boundary that was copied.
// REPRIEVE_EMERGENCIES sets how many, of each kind.

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "faults/lives.hpp"
#include "manager/node_directory.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
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
    const Life life = lives_.start("long", {{"STEPPER_LONG", quick}});
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

}  // namespace
}  // namespace reprieve::test
