// SPDX-License-Identifier: BSD-3-Clause
// The file of a retired checkpoint becomes the place for the next one, and can never be taken for a checkpoint
// meanwhile.

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "manager_fixture.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

class RecycleTest : public ManagerTest {
 protected:
  [[nodiscard]] fs::path checkpoint_file(int number) const {
    return directory / ("ckpt-" + std::to_string(number) + ".h5");
  }

  /// Tells whether a file is the same as another one was; 0 if there is none. The same on all ranks.
  static ino_t inode(const fs::path& file) {
    MPI_Barrier(MPI_COMM_WORLD);
    struct stat status = {};
    const ino_t found = ::stat(file.c_str(), &status) == 0 ? status.st_ino : 0;
    MPI_Barrier(MPI_COMM_WORLD);
    return found;
  }

  static void expect_sound(const fs::path& file) {
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_THAT(storage::verify_file(file), SizeIs(0)) << file;
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void expect_restored(CheckpointManager& manager, int seed) {
    state.set(99);
    manager.restore_or_initialize();
    expect_state(seed);
  }

  const fs::path spare = directory / ".reprieve.recycled";
};

TEST_F(RecycleTest, TheRetiredFileIsTheNextOne) {
  CheckpointManager manager = open({.max_to_keep = 1});
  save_each(manager, {1});
  const ino_t first = inode(checkpoint_file(1));
  save_each(manager, {2});
  EXPECT_EQ(inode(spare), first);
  EXPECT_THROW(static_cast<void>(storage::read_metadata(spare)), CorruptError);
  save_each(manager, {3});
  EXPECT_EQ(inode(checkpoint_file(3)), first);
  EXPECT_NE(inode(spare), 0U);
  expect_sound(checkpoint_file(3));
  expect_restored(manager, 3);
}

/// With seeds, sizes change; the files of all sizes follow each other in the same blocks.
TEST_F(RecycleTest, StatesOfOtherSizesFollowEachOther) {
  for (const WriterKind writer : {WriterKind::direct, WriterKind::mpio}) {
    CheckpointManager manager = open({.max_to_keep = 1, .writer = writer});
    for (const int seed : {6, 1, 5, 0, 13, 2, 3}) {
      state.set(seed);
      manager.save(100);
      manager.save(101 + static_cast<std::uint64_t>(seed));
      expect_sound(checkpoint_file(101 + seed));
      state.set(99);
      manager.restore(checkpoint_file(101 + seed));
      expect_state(seed);
    }
  }
}

TEST_F(RecycleTest, SavesInTheBackgroundRecycleToo) {
  CheckpointManager manager = open({.max_to_keep = 1});
  ino_t retired = 0;
  for (const int seed : {1, 2, 3, 4}) {
    state.set(seed);
    CheckpointManager::SaveRequest request;
    request.number = static_cast<std::uint64_t>(seed);
    manager.save_in_background(request);
    state.set(77);  // not what is saved
    manager.finish_background_save();
    if (seed > 2) {
      EXPECT_EQ(inode(checkpoint_file(seed)), retired);
    }
    retired = inode(spare);
    expect_sound(checkpoint_file(seed));
    expect_restored(manager, seed);
  }
}

TEST_F(RecycleTest, CanBeSwitchedOff) {
  CheckpointManager manager = open({.max_to_keep = 1, .recycle = false});
  save_each(manager, {1, 2, 3});
  EXPECT_EQ(inode(spare), 0U);
}

TEST_F(RecycleTest, NothingIsLeftAtTheEnd) {
  {
    CheckpointManager manager = open({.max_to_keep = 1});
    save_each(manager, {1, 2});
    EXPECT_NE(inode(spare), 0U);
  }
  EXPECT_EQ(inode(spare), 0U);
}

TEST_F(RecycleTest, AHardLinkOfTheUserKeepsItsContent) {
  CheckpointManager manager = open({.max_to_keep = 1});
  save_each(manager, {1});
  const fs::path kept = temporary / "kept.h5";
  on_chief([&] { fs::create_hard_link(checkpoint_file(1), kept); });
  save_each(manager, {2});
  EXPECT_EQ(inode(spare), 0U);
  save_each(manager, {3, 4});
  expect_sound(kept);
  state.set(99);
  manager.restore(kept);
  expect_state(1);
}

TEST_F(RecycleTest, AFileThatSomebodyReadsKeepsItsContent) {
  CheckpointManager manager = open({.max_to_keep = 1});
  save_each(manager, {1});
  const std::string before = read_text(checkpoint_file(1));
  std::ifstream reader(checkpoint_file(1));
  save_each(manager, {2, 3, 4});
  const std::string read{std::istreambuf_iterator<char>(reader), {}};
  EXPECT_EQ(read, before);
  EXPECT_GT(read.size(), 1000U);
}

TEST_F(RecycleTest, ASymbolicLinkIsNotFollowed) {
  CheckpointManager manager = open({.max_to_keep = 1});
  save_each(manager, {1});
  const fs::path target = temporary / "target.h5";
  on_chief([&] {
    fs::rename(checkpoint_file(1), target);
    fs::create_symlink(target, checkpoint_file(1));
  });
  save_each(manager, {2, 3, 4});
  expect_sound(target);
}

TEST_F(RecycleTest, ElementsThatNoRankHoldsAreZero) {
  Checkpoint checkpoint;
  const auto rank = static_cast<std::uint64_t>(world_rank());
  const Extents shape{static_cast<std::uint64_t>(world_size()) * 200'000};
  std::uint64_t held = 200'000;
  std::vector<double> values(held, 7.0);
  checkpoint.add_distributed("field", [&]() -> DistributedArray {
    return {
        element_type_of<double>(), shape, {{reinterpret_cast<std::byte*>(values.data()), {rank * 200'000}, {held}}}};
  });
  CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory, {.max_to_keep = 1});
  manager.save(1);
  manager.save(2);
  held = 100'000;
  manager.save(3);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto bytes = storage::read_variable(checkpoint_file(3), "field");
  const std::span stored(reinterpret_cast<const double*>(bytes.data()), bytes.size() / sizeof(double));
  EXPECT_EQ(stored[99'999], 7.0);
  EXPECT_THAT(stored.subspan(100'000, 100'000), Each(0.0));
}

/// A run can die after it has renamed the file and before it has taken the commit record away.
TEST_F(RecycleTest, TheRecycledFileOfADeadRunIsNeverRestored) {
  {
    CheckpointManager manager = open({.max_to_keep = 2});
    save_each(manager, {1, 2});
  }
  on_chief([&] { fs::rename(checkpoint_file(2), spare); });
  const ino_t left = inode(spare);
  CheckpointManager manager = open({.max_to_keep = 2});
  expect_restored(manager, 1);
  save_each(manager, {3});
  EXPECT_EQ(inode(checkpoint_file(3)), left);
  expect_sound(checkpoint_file(3));
  expect_restored(manager, 3);
}

/// As a run leaves it that dies in the middle of a rewrite, at the worst moment: committed, but not committed.
TEST_F(RecycleTest, ARewriteThatWasCutShortIsGone) {
  {
    CheckpointManager manager = open({.max_to_keep = 3});
    save_each(manager, {1, 2});
  }
  on_chief([&] {
    fs::create_directory(directory / ".chieftemp");
    fs::rename(checkpoint_file(2), directory / ".chieftemp/ckpt-3.1700000000000000.h5");
  });
  CheckpointManager manager = open({.max_to_keep = 3});
  EXPECT_EQ(names(), Names{"ckpt-1.h5"});
  expect_restored(manager, 1);
}

TEST_F(RecycleTest, AFailedSaveLeavesTheDirectoryUsable) {
  REPRIEVE_NEEDS_RANKS(2);
  CheckpointManager manager = open({.max_to_keep = 1});
  save_each(manager, {1, 2});
  std::vector<int> uneven(static_cast<std::size_t>(world_rank()) + 1);
  state.checkpoint.add_replicated("uneven", uneven);
  EXPECT_EQ(same_error_on_all_ranks([&] { manager.save(3); }).code, ErrorCode::mismatch);
  EXPECT_EQ(names(), Names{"ckpt-2.h5"});
  uneven.resize(5);
  save_each(manager, {4, 5});
  expect_sound(checkpoint_file(5));
}

TEST_F(RecycleTest, AReserveIsThereBeforeTheFirstSaveAndAfterEveryOne) {
  {
    CheckpointManager manager = open({.max_to_keep = 3, .reserve = true});
    manager.restore_or_initialize();
    const ino_t reserved = inode(spare);
    EXPECT_NE(reserved, 0U);
    save_each(manager, {1});
    EXPECT_EQ(inode(checkpoint_file(1)), reserved);
    expect_sound(checkpoint_file(1));
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_GE(fs::file_size(spare), fs::file_size(checkpoint_file(1)));
    save_each(manager, {2, 3, 4, 5});
    expect_sound(checkpoint_file(5));
    EXPECT_NE(inode(spare), 0U);
  }
  EXPECT_EQ(inode(spare), 0U);
}

/// A limit on the size of files stands for a full disk.
TEST_F(RecycleTest, AReserveThatDoesNotFitIsAnErrorAtTheStart) {
  std::vector<double> large(1U << 20U);
  state.checkpoint.add_replicated("large", large);
  CheckpointManager manager = open({.reserve = true});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1U << 20U, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const SeenError error = same_error_on_all_ranks([&] { manager.restore_or_initialize(); });
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.code, ErrorCode::no_space);
  EXPECT_THAT(error.message, HasSubstr("bytes needed"));
  EXPECT_EQ(inode(spare), 0U);
}

}  // namespace
}  // namespace reprieve::test
