// SPDX-License-Identifier: BSD-3-Clause
// A rank that gets fewer threads than it asks for, or none, saves all the same: never an error, never a wait.

#include <cerrno>

#include "faults/injector/faulty_calls.hpp"
#include "mpi/manager_fixture.hpp"

namespace reprieve::test {
namespace {

/// How many threads the last rank still gets during a save.
class ThreadsLeft : public ManagerTest, public testing::WithParamInterface<int> {
 protected:
  static constexpr std::size_t kPart = 1'000'003;  // enough for buffers and threads of its own

  ThreadsLeft() : large_(kPart) {
    const auto rank = static_cast<std::uint64_t>(world_rank());
    const auto size = static_cast<std::uint64_t>(world_size());
    state.checkpoint.add_distributed("large", large_.data(), {{kPart * size}, {kPart * rank}, {kPart}});
  }

  void set_state(int seed) {
    state.set(seed);
    std::iota(large_.begin(), large_.end(), 1e6 * seed);
  }

  /// Saves by @p save while threads are short, then restores.
  void expect_saved_by(const std::function<void(CheckpointManager&)>& save) {
    CheckpointManager manager = open({.io = FileIo::direct});
    set_state(1);
    if (world_rank() == world_size() - 1) {
      arm({.call = Call::thread,
           .error = EAGAIN,
           .occurrence = static_cast<std::uint64_t>(GetParam()) + 1,
           .count = kAlways});
    }
    save(manager);
    disarm();
    set_state(2);
    ASSERT_TRUE(manager.restore_or_initialize());
    expect_state(1);
    std::vector<double> expected(kPart);
    std::iota(expected.begin(), expected.end(), 1e6);
    EXPECT_TRUE(large_ == expected);
    MPI_Barrier(MPI_COMM_WORLD);
  }

 private:
  std::vector<double> large_;
};

TEST_P(ThreadsLeft, AreEnoughForASave) {
  expect_saved_by([](CheckpointManager& manager) { manager.save(1); });
}

TEST_P(ThreadsLeft, AreEnoughForASaveInTheBackground) {
  expect_saved_by([](CheckpointManager& manager) {
    CheckpointManager::SaveRequest request;
    request.number = 1;
    manager.save_in_background(request);
    manager.finish_background_save();
  });
}

INSTANTIATE_TEST_SUITE_P(Faults, ThreadsLeft, testing::Range(0, 5));

}  // namespace
}  // namespace reprieve::test
