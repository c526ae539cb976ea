// SPDX-License-Identifier: BSD-3-Clause
// Reads that give a wrong bit: what is valid on the disk is restored, or stays where it is with an error that says
// which host reads it wrong. It is never quarantined.

#include "core/log.hpp"
#include "faults/injector/faulty_calls.hpp"
#include "mpi/manager_fixture.hpp"

namespace reprieve::test {
namespace {

/// Which rank reads wrong bits, and whether the program has functions that run in the middle of a restore.
class WrongBits : public ManagerTest, public testing::WithParamInterface<std::tuple<int, bool>> {
 protected:
  WrongBits() : field_(kPart) {
    const auto rank = static_cast<std::uint64_t>(world_rank());
    const auto size = static_cast<std::uint64_t>(world_size());
    state.checkpoint.add_distributed("large", field_.data(), {{kPart * size}, {kPart * rank}, {kPart}});
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
                           return std::string(std::get<0>(param.param) == 0 ? "Chief" : "OtherRank") +
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
