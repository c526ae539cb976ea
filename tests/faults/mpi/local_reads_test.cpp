// SPDX-License-Identifier: BSD-3-Clause
// Reads of node-local copies that fail, or give a wrong bit, at a start: something whole is restored, the copy, an
// older one or the checkpoint, and no start ends for it.

#include <algorithm>
#include <cerrno>

#include "core/log.hpp"
#include "faults/injector/faulty_calls.hpp"
#include "mpi/local_fixture.hpp"

namespace reprieve::test {
namespace {

/// Which rank reads wrong, and what goes wrong.
using LocalFault = std::tuple<int, int>;

class LocalReads : public LocalRuns, public testing::WithParamInterface<LocalFault> {
 protected:
  LocalReads() : field_(kPart) {
    const auto rank = static_cast<std::uint64_t>(world_rank());
    const auto size = static_cast<std::uint64_t>(world_size());
    state.checkpoint.add_distributed("large", field_.data(), {{kPart * size}, {kPart * rank}, {kPart}});
  }

  void SetUp() override {
    REPRIEVE_NEEDS_RANKS(2);
    core::log::set_level("off");
    LocalRuns::SetUp();
  }

  static int victim() { return std::get<0>(GetParam()); }

  /// A run that leaves checkpoint 1, and copies 2 and 3.
  void crash() {
    on_chief([this] {
      std::filesystem::remove_all(directory);
      std::filesystem::remove_all(place_);
      std::filesystem::create_directories(place_);
    });
    crash_after([this](CheckpointManager& manager) {
      std::ranges::fill(field_, 1);
      save_each(manager, {1});
      for (const int number : {2, 3}) {
        std::ranges::fill(field_, number);
        copy(manager, number);
      }
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
  int newest_ = 0;
  int oldest_ = 99;
};

INSTANTIATE_TEST_SUITE_P(Restore, LocalReads,
                         testing::Combine(testing::Values(0, 1), testing::Values(EIO, kFlip, kShort)),
                         [](const auto& param) {
                           const int error = std::get<1>(param.param);
                           return std::string(std::get<0>(param.param) == 0 ? "Chief" : "OtherRank") +
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

}  // namespace
}  // namespace reprieve::test
