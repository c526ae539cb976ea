// SPDX-License-Identifier: BSD-3-Clause
// Reads of node-local copies that fail, or give a wrong bit, at a start: something whole is restored, the copy, an
// older one or the checkpoint, and no start ends for it.

#include <algorithm>
#include <cerrno>

#include "core/log.hpp"
#include "faults/injector/faulty_calls.hpp"
#include "large_state.hpp"
#include "mpi/local_fixture.hpp"
#include "mpi/manager_fixture.hpp"

namespace reprieve::test {
namespace {

/// Which rank reads wrong, and what goes wrong.
using LocalFault = std::tuple<int, int>;

class LocalReads : public LocalRuns, public testing::WithParamInterface<LocalFault> {
 protected:
  LocalReads() : field_(kPart) { add_large(state.checkpoint, field_); }

  void SetUp() override {
    REPRIEVE_NEEDS_RANKS(2);
    core::log::set_level("off");
    LocalRuns::SetUp();
  }

  static int victim() { return std::get<0>(GetParam()); }

  /// A run that leaves checkpoint 1, and copies 2 and 3: as it left them, after the first time.
  void crash() {
    constexpr auto kOptions = std::filesystem::copy_options::recursive;
    if (is_crashed_) {
      on_rank_0([&] {
        for (const auto& [kept, place] : {std::pair(kept_ / "run", directory), std::pair(kept_ / "local", place_)}) {
          for (const auto& entry : std::filesystem::directory_iterator(place)) {  // the directory itself is known again
            std::filesystem::remove_all(entry);
          }
          std::filesystem::copy(kept, place, kOptions);
        }
      });
      return;
    }
    crash_after([this](CheckpointManager& manager) {
      std::ranges::fill(field_, 1);
      save_each(manager, {1});
      for (const int number : {2, 3}) {
        std::ranges::fill(field_, number);
        copy(manager, number);
      }
    });
    is_crashed_ = true;
    on_rank_0([&] {
      std::filesystem::copy(directory, kept_ / "run", kOptions);
      std::filesystem::copy(place_, kept_ / "local", kOptions);
    });
  }

  /// Restores while reads of parts fail. Returns how many did.
  std::uint64_t restore_with_fault(std::uint64_t occurrence, std::uint64_t count) {
    state.set(99);
    std::ranges::fill(field_, 99);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == victim()) {
      arm({Call::read, std::get<1>(GetParam()), occurrence, count, ".part"});
    }
    {
      CheckpointManager manager = open(with_local_copies());
      const auto info = manager.restore_or_initialize();
      EXPECT_TRUE(info.has_value());
      const int seed = info ? static_cast<int>(info->number) : 0;
      EXPECT_TRUE(seed >= 1 && seed <= 3) << seed;
      expect_state(seed);
      EXPECT_TRUE(std::ranges::all_of(field_, [&](double value) { return value == seed; })) << "not that of " << seed;
      newest_ = std::max(newest_, seed);
      oldest_ = std::min(oldest_, seed);
    }
    std::uint64_t failed = world_rank() == victim() ? disarm().failed : 0;
    MPI_Bcast(&failed, 1, MPI_UINT64_T, victim(), MPI_COMM_WORLD);
    return failed;
  }

  static constexpr std::uint64_t kPart = 640 << 10U;  ///< 5 MiB: more than one block
  std::vector<double> field_;
  const SharedTemporaryDirectory kept_;
  bool is_crashed_ = false;
  int newest_ = 0;
  int oldest_ = 99;
};

INSTANTIATE_TEST_SUITE_P(Restore, LocalReads,
                         testing::Combine(testing::Values(0, 1), testing::Values(EIO, kFlip, kShort)),
                         [](const auto& param) {
                           const int error = std::get<1>(param.param);
                           return std::string(std::get<0>(param.param) == 0 ? "Rank0" : "OtherRank") +
                                  (error == EIO     ? "Error"
                                   : error == kFlip ? "WrongBit"
                                                    : "CutShort");
                         });

TEST_P(LocalReads, ThatFailOnceLoseNoMoreThanWhatIsOlder) {
  std::uint64_t occurrence = 1;
  for (;; ++occurrence) {
    SCOPED_TRACE("read " + std::to_string(occurrence));
    crash();
    if (restore_with_fault(occurrence, 1) == 0) {
      break;
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(occurrence, 10U);  // commit records, heads, tables, data
  EXPECT_EQ(newest_, 3);
}

TEST_P(LocalReads, ThatFailFromSomeTimeOnLeaveTheCheckpoint) {
  if (std::get<1>(GetParam()) == kShort) {
    GTEST_SKIP() << "reading continues with the rest";
  }
  for (const std::uint64_t occurrence : {1U, 5U, 9U, 14U}) {
    SCOPED_TRACE("read " + std::to_string(occurrence));
    crash();
    EXPECT_GT(restore_with_fault(occurrence, kAlways), 0U);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(oldest_, 1);
}

// Reads that give a wrong bit: what is valid on the disk is restored, or stays where it is with an error that says
// which host reads it wrong. It is never quarantined.

/// Which rank reads wrong bits, and whether the program has functions that run in the middle of a restore.
class WrongBits : public ManagerTest, public testing::WithParamInterface<std::tuple<int, bool>> {
 protected:
  WrongBits() : field_(kPart) {
    add_large(state.checkpoint, field_);
    if (std::get<1>(GetParam())) {
      state.checkpoint.when_values_restored([] {});
    }
  }

  void SetUp() override {
    REPRIEVE_NEEDS_RANKS(2);
    core::log::set_level("off");
  }

  static int victim() { return std::get<0>(GetParam()); }

  void save_two(CheckpointManager& manager) {
    save_each(manager, {1, 2});
    state.set(99);
  }

  /// From now on, on one rank.
  static void arm_victim(std::uint64_t occurrence, std::uint64_t count) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == victim()) {
      arm({Call::read, kFlip, occurrence, count, "ckpt-2.h5"});
    }
  }

  /// How many reads were wrong.
  static std::uint64_t disarm_victim() {
    std::uint64_t wrong = world_rank() == victim() ? disarm().failed : 0;
    MPI_Bcast(&wrong, 1, MPI_UINT64_T, victim(), MPI_COMM_WORLD);
    return wrong;
  }

  static constexpr std::uint64_t kPart = 640 << 10U;  ///< 5 MiB: more than one block
  std::vector<double> field_;
};

INSTANTIATE_TEST_SUITE_P(Restore, WrongBits, testing::Combine(testing::Values(0, 1), testing::Bool()),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param) == 0 ? "Rank0" : "OtherRank") +
                                  (std::get<1>(param.param) ? "WithFunctions" : "");
                         });

TEST_P(WrongBits, OnceAreReadAgain) {
  CheckpointManager manager = open();
  save_two(manager);
  std::uint64_t occurrence = 1;
  for (;; ++occurrence) {
    SCOPED_TRACE("read " + std::to_string(occurrence));
    state.set(99);
    arm_victim(occurrence, 1);
    const auto info = manager.restore_or_initialize();
    if (disarm_victim() == 0) {
      break;
    }
    ASSERT_TRUE(info.has_value());
    ASSERT_EQ(info->number, 2U);
    expect_state(2);
    ASSERT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5"}));
  }
  EXPECT_GT(occurrence, 5U);  // the commit record, three tables, data
}

}  // namespace
}  // namespace reprieve::test
