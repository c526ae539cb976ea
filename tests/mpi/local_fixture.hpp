// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Runs that take node-local copies and crash: what the tests of them have in common.

#include "manager/local_copies.hpp"
#include "manager/manager_impl.hpp"
#include "manager_fixture.hpp"
#include "support/boxes_and_bytes.hpp"

namespace reprieve::test {

/// Whether each rank says that it is on a host of its own.
inline bool hosts_are_played = false;

struct Crash {};

class LocalRuns : public ManagerTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(memory_.parent_path())) {
      GTEST_SKIP() << "no /dev/shm";
    }
    on_rank_0([this] { std::filesystem::create_directories(place_); });
  }

  void TearDown() override {
    hosts_are_played = false;
    on_rank_0([this] { std::filesystem::remove_all(memory_); });
  }

  [[nodiscard]] virtual ManagerOptions with_local_copies() const {
    ManagerOptions options;
    options.local_directory = place_;
    options.lock_timeout = std::chrono::seconds(10);
    return options;
  }

  /// Takes a copy of the state of that seed, complete on all ranks.
  void copy(CheckpointManager& manager, int seed) {
    state.set(seed);
    EXPECT_TRUE(manager.local_copy(static_cast<std::uint64_t>(seed)));
    state.set(seed + 50);
    manager.impl().local->wait();
    MPI_Barrier(MPI_COMM_WORLD);
  }

  /// A run that ends with an exception after what it does.
  template <class Work>
  void crash_after(Work&& work) {
    crash_with(state.checkpoint, [&](CheckpointManager& manager) {
      manager.restore_or_initialize();
      work(manager);
    });
  }

  /// One of another state, which begins anew.
  template <class Work>
  void crash_with(Checkpoint& checkpoint, Work&& work) {
    try {
      CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory, with_local_copies());
      work(manager);
      throw Crash{};
    } catch (const Crash&) {
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  /// One that makes checkpoints first, and takes copies then.
  void crash_after(const std::vector<int>& saved, const std::vector<int>& copied) {
    crash_after([&](CheckpointManager& manager) {
      save_each(manager, saved);
      for (const int seed : copied) {
        copy(manager, seed);
      }
    });
  }

  std::optional<CheckpointInfo> restore() {
    state.set(99);
    CheckpointManager manager = open(with_local_copies());
    return manager.restore_or_initialize();
  }

  void expect_restored(int seed, const std::string& suffix) {
    const auto info = restore();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->path.extension(), suffix) << info->path;
    expect_state(seed);
  }

  void expect_restored(int seed) {
    ASSERT_TRUE(restore());
    expect_state(seed);
  }

  [[nodiscard]] std::vector<std::filesystem::path> parts() const { return parts_in(place_); }

  [[nodiscard]] static std::vector<std::filesystem::path> parts_in(const std::filesystem::path& place) {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place)) {
      if (entry.path().extension() == ".part") {
        found.push_back(entry.path());
      }
    }
    return found;
  }

  /// Of the copies taken one after the other, the slots take turns.
  [[nodiscard]] std::filesystem::path part_of(int rank, int slot) const {
    for (const std::filesystem::path& path : parts()) {
      if (path.filename().string().ends_with('-' + std::to_string(rank) + '.' + std::to_string(slot) + ".part")) {
        return path;
      }
    }
    return {};
  }

  const std::filesystem::path memory_ =
      std::filesystem::path("/dev/shm") /
      ("reprieve-test-" + temporary.path().filename().string() + "-" + std::to_string(world_size()));
  std::filesystem::path place_ = memory_;
};

/// The parameter: whether the place of the copies is memory. Then it is mapped, otherwise written.
class LocalTest : public LocalRuns, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    place_ = GetParam() ? memory_ : temporary / "local";
    LocalRuns::SetUp();
  }
};

}  // namespace reprieve::test
