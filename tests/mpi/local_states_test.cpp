// SPDX-License-Identifier: BSD-3-Clause
// Node-local copies of states that change their shape, and in places that are none: what a program does rightly in a
// way that nobody wrote down, or wrongly.

#include <sys/stat.h>

#include "local_fixture.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LocalStates : public LocalTest {
 protected:
  [[nodiscard]] CheckpointManager manage(Checkpoint& checkpoint) const {
    return {MPI_COMM_WORLD, checkpoint, directory, with_local_copies()};
  }

  static void complete_copy(CheckpointManager& manager, std::uint64_t number) {
    EXPECT_TRUE(manager.local_copy(number));
    manager.impl().local->wait();
    MPI_Barrier(MPI_COMM_WORLD);
  }
};

class LocalGrowth : public LocalStates {
 protected:
  /// One part is larger than all before it, and the last one is small again.
  void grow_and_come_back(std::initializer_list<std::size_t> sizes) {
    std::vector<double> particles;
    Checkpoint checkpoint;
    checkpoint.add_per_rank("particles", particles);
    try {
      CheckpointManager manager = manage(checkpoint);
      std::uint64_t number = 0;
      for (const std::size_t size : sizes) {
        particles.assign(size + static_cast<std::size_t>(world_rank()), static_cast<double>(++number));
        complete_copy(manager, number);
      }
      throw Crash{};
    } catch (const Crash&) {
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const std::vector<double> wanted = particles;
    particles.clear();
    CheckpointManager manager = manage(checkpoint);
    const auto info = manager.restore_or_initialize();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->number, sizes.size());
    EXPECT_EQ(particles, wanted);
  }
};

TEST_P(LocalGrowth, AStateMayGrowAndShrinkBetweenTwoCopies) {
  grow_and_come_back({10, 200'000, 3, 500'000, 100});
  grow_and_come_back({0, 0, 300'000});
}

TEST_P(LocalGrowth, APartnerKeepsPartsThatGrow) {
  if (world_size() == 1 || !GetParam()) {
    GTEST_SKIP() << "partners are for several hosts, and for memory";
  }
  hosts_are_played = true;
  grow_and_come_back({10, 200'000, 3, 500'000, 100});
}

TEST_P(LocalStates, ARankMayHaveNothingAtAll) {
  std::vector<double> field(world_rank() == 0 ? 1000 : 0, 7.0);
  Checkpoint checkpoint;
  checkpoint.add_distributed("field", field.data(), {{1000}, {world_rank() == 0 ? 0U : 1000U}, {field.size()}});
  try {
    CheckpointManager manager = manage(checkpoint);
    complete_copy(manager, 1);
    complete_copy(manager, 2);
    throw Crash{};
  } catch (const Crash&) {
  }
  MPI_Barrier(MPI_COMM_WORLD);
  std::ranges::fill(field, 0.0);
  CheckpointManager manager = manage(checkpoint);
  const auto info = manager.restore_or_initialize();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->number, 2U);
  EXPECT_EQ(field, std::vector<double>(field.size(), 7.0));
}

TEST_P(LocalStates, AnotherStateIsRefusedAsThatOfAFileAndTheCopyStays) {
  crash_after([&](CheckpointManager& manager) { copy(manager, 2); });
  {
    int step = 0;
    double more = 0;
    Checkpoint other;
    other.add_replicated("step", step);
    other.add_replicated("more", more);
    CheckpointManager manager = manage(other);
    EXPECT_EQ(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }).code, ErrorCode::mismatch);
    EXPECT_EQ(step, 0) << "nothing was touched";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  expect_restored(2, ".part");
}

TEST_P(LocalStates, APlaceThatIsAFileIsSaidAtTheStart) {
  on_chief([&] {
    fs::remove_all(place_);
    std::ofstream(place_) << "in the way";
  });
  {
    CheckpointManager manager = open(with_local_copies());
    EXPECT_THAT(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }).message,
                testing::AllOf(HasSubstr("local_directory"), HasSubstr(place_.filename().string())));
  }
  on_chief([&] { fs::remove(place_); });
}

TEST_P(LocalStates, APlaceMayBeALink) {
  const fs::path real = place_;
  place_ = temporary / ("link-" + std::to_string(GetParam()));
  on_chief([&] { fs::create_directory_symlink(real, place_); });
  crash_after([&](CheckpointManager& manager) { copy(manager, 2); });
  expect_restored(2, ".part");
}

/// Anybody may take the plain name first: nothing of this user lies there, and nobody's start ends for it.
TEST_P(LocalStates, AFolderThatIsNotTheUsersOwnIsPassedOver) {
  const fs::path taken = place_ / ("reprieve-" + std::to_string(::geteuid()));
  on_chief([&] {
    fs::create_directory(taken);
    fs::permissions(taken, fs::perms::owner_all | fs::perms::others_read);
  });
  crash_after([&](CheckpointManager& manager) {
    copy(manager, 3);
    copy(manager, 4);
  });
  on_chief([&] { EXPECT_TRUE(fs::is_empty(taken)); });
  expect_restored(4, ".part");
}

TEST_P(LocalStates, TwoDirectoriesShareAPlaceAndNothingElse) {
  const auto crash_in = [&](const char* name, int seed) {
    try {
      CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, temporary / name, with_local_copies());
      EXPECT_FALSE(manager.restore_or_initialize()) << "it has taken none";
      copy(manager, seed);
      throw Crash{};
    } catch (const Crash&) {
    }
    MPI_Barrier(MPI_COMM_WORLD);
  };
  crash_in("one", 2);
  crash_in("other", 5);
  for (const auto& [name, seed] : {std::pair{"one", 2}, std::pair{"other", 5}}) {
    state.set(99);
    CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, temporary / name, with_local_copies());
    ASSERT_TRUE(manager.restore_or_initialize());
    expect_state(seed);
  }
}

const auto in_memory_and_on_disk = testing::Bool();
std::string name_of_place(const testing::TestParamInfo<bool>& place) { return place.param ? "Memory" : "AFile"; }
INSTANTIATE_TEST_SUITE_P(In, LocalStates, in_memory_and_on_disk, name_of_place);
INSTANTIATE_TEST_SUITE_P(In, LocalGrowth, in_memory_and_on_disk, name_of_place);

}  // namespace
}  // namespace reprieve::test
