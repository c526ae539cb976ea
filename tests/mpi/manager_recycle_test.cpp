// SPDX-License-Identifier: BSD-3-Clause
// The file of a retired checkpoint becomes the place for the next one, and can never be taken for a checkpoint
// meanwhile.

#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <thread>

#include "manager_fixture.hpp"
#include "storage/read/inspect_file.hpp"
#include "support/boxes_and_bytes.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::SizeIs;

/// A thread sees to it.
bool happens(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

/// Whether the thread of the last save has made the recycled file one that is no checkpoint: it writes to it after the
/// newest checkpoint is committed. To open it before would disturb the thread.
bool becomes_void(const fs::path& recycled, const fs::path& newest) {
  return happens([&] { return fs::last_write_time(recycled) > fs::last_write_time(newest); });
}

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
  EXPECT_TRUE(becomes_void(spare, checkpoint_file(2)));
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

TEST_F(RecycleTest, APinnedCheckpointIsNeitherRetiredNorRecycled) {
  CheckpointManager manager = open({.max_to_keep = 1});
  for (const int seed : {1, 2, 3, 4}) {
    state.set(seed);
    manager.save(static_cast<std::uint64_t>(seed));
    if (seed == 1) {
      on_rank_0([&] { std::ofstream(checkpoint_file(1).string() + ".pinned").flush(); });
    }
  }
  expect_sound(checkpoint_file(1));
  expect_sound(checkpoint_file(4));
  EXPECT_EQ(inode(checkpoint_file(3)), 0U);
  manager.restore(checkpoint_file(1));
  expect_state(1);
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

TEST_F(RecycleTest, AHardLinkOfTheUserKeepsItsContent) {
  CheckpointManager manager = open({.max_to_keep = 1});
  save_each(manager, {1});
  const fs::path kept = temporary / "kept.h5";
  on_rank_0([&] { fs::create_hard_link(checkpoint_file(1), kept); });
  save_each(manager, {2});
  EXPECT_TRUE(happens([&] { return !fs::exists(spare); }));
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
  on_rank_0([&] {
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
  run_with_saves({1, 2}, {.max_to_keep = 2});
  on_rank_0([&] { fs::rename(checkpoint_file(2), spare); });
  const ino_t left = inode(spare);
  CheckpointManager manager = open({.max_to_keep = 2});
  expect_restored(manager, 1);
  save_each(manager, {3});
  EXPECT_EQ(inode(checkpoint_file(3)), left);
  expect_sound(checkpoint_file(3));
  expect_restored(manager, 3);
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
  const SmallFiles full_disk(1U << 20U);
  EXPECT_THAT(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }),
              is_error(ErrorCode::no_space, "bytes needed"));
  EXPECT_EQ(inode(spare), 0U);
}

// What a file that is written over holds already is left as it lies, and nothing else is. A bit that the disk flips
// there shows what was left; no time of the file tells of it.

using testing::IsEmpty;

/// An array over all ranks, of parts that end anywhere, and one that grows.
class UnchangedTest : public testing::Test {
 protected:
  UnchangedTest() {
    std::iota(field.begin(), field.end(), 1000.0 * world_rank());
    const auto rank = static_cast<std::uint64_t>(world_rank());
    state.add_distributed("field", field.data(), {{field.size() * ranks}, {field.size() * rank}, {field.size()}});
    state.add_per_rank("grows", grows);
    state.add_replicated("step", step);
  }

  [[nodiscard]] CheckpointManager open(FileIo io = FileIo::automatic) {
    return {MPI_COMM_WORLD, state, directory / "run", {.max_to_keep = 1, .io = io}};
  }

  [[nodiscard]] fs::path file() const { return directory / ("run/ckpt-" + std::to_string(step) + ".h5"); }

  void save(CheckpointManager& manager) {
    ++step;
    manager.save(static_cast<std::uint64_t>(step));
  }

  [[nodiscard]] static std::vector<storage::Corruption> problems_of(const fs::path& file) {
    MPI_Barrier(MPI_COMM_WORLD);
    auto found = storage::verify_file(file);
    MPI_Barrier(MPI_COMM_WORLD);
    return found;
  }

  /// The file holds the state, as a restore finds it.
  void expect_saved() {
    EXPECT_THAT(problems_of(file()), IsEmpty());
    const auto wanted = std::tuple(field, grows, step);
    std::ranges::fill(field, -1.0);
    grows.clear();
    CheckpointManager reader(MPI_COMM_WORLD, state, directory / "other", {});
    reader.restore(file());
    EXPECT_TRUE(std::tuple(field, grows, step) == wanted);
  }

  /// Flips a bit in the middle of the data of the recycled file, which looks as if nobody had touched it.
  void flip_bit_in_recycled(bool keeps_time) const {
    if (world_rank() == 0) {
      const fs::path spare = directory / "run/.reprieve.recycled";
      ASSERT_TRUE(becomes_void(spare, file()));
      struct stat status = {};
      ASSERT_EQ(::stat(spare.c_str(), &status), 0);
      storage::flip(spare, fs::file_size(spare) / 2);
      // The clock of a file system can stand still for some milliseconds: a later time is set as well.
      status.st_mtim.tv_sec += keeps_time ? 0 : 1;
      const std::array times{status.st_atim, status.st_mtim};
      ASSERT_EQ(::utimensat(AT_FDCWD, spare.c_str(), times.data(), 0), 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  const std::uint64_t ranks = static_cast<std::uint64_t>(world_size());
  SharedTemporaryDirectory directory;
  std::vector<double> field = std::vector<double>((std::size_t{3} << 17U) + 77);
  std::vector<double> grows = std::vector<double>(10);
  int step = 0;
  Checkpoint state;
};

TEST_F(UnchangedTest, IsLeftAsItLiesWhichVerifyFindsWhereADiskHasFlippedABit) {
  CheckpointManager manager = open();
  save(manager);
  save(manager);
  save(manager);
  flip_bit_in_recycled(true);
  save(manager);
  EXPECT_THAT(problems_of(file()), SizeIs(1)) << "the block was left as it lay";
  save(manager);
  EXPECT_THAT(problems_of(file()), IsEmpty()) << "that is the other file";
  for (int i = 0; i < 2 * 16; ++i) {
    save(manager);
  }
  for (int i = 0; i < 2; ++i) {
    save(manager);
    expect_saved();  // each of the two files has been written as a whole meanwhile
  }
}

TEST_F(UnchangedTest, IsWrittenWhereSomebodyHasTouchedTheFile) {
  CheckpointManager manager = open();
  save(manager);
  save(manager);
  flip_bit_in_recycled(false);
  save(manager);
  expect_saved();
}

TEST_F(UnchangedTest, WhatChangesIsWrittenWhereverItLies) {
  for (const FileIo io : {FileIo::page_cache, FileIo::direct}) {
    CheckpointManager manager = open(io);
    std::mt19937 draw(7U + static_cast<unsigned>(io));
    for (int i = 0; i < 40; ++i) {
      for (unsigned changes = draw() % 4; changes > 0; --changes) {
        const std::size_t from = draw() % field.size();
        const std::size_t count = std::min<std::size_t>(field.size() - from, std::size_t{1} << (draw() % 18));
        for (std::size_t k = from; k < from + count; ++k) {
          field[k] += 1;
        }
      }
      if (draw() % 8 == 0) {
        grows.resize(draw() % 50'000, i);  // then all that follows lies elsewhere
      }
      save(manager);
      expect_saved();
    }
  }
}

/// Around 1 MiB arrays cease to be small, and small ones lie where rank 0 prepares the file for them.
TEST_F(UnchangedTest, ArraysOfAnySizeThatStayAsTheyAreComeBack) {
  for (const std::size_t kib : {60U, 64U, 128U, 192U, 320U, 512U, 1024U, 1025U}) {
    SCOPED_TRACE(kib);
    grows.resize(kib * 1024 / sizeof(double) / ranks);
    std::iota(grows.begin(), grows.end(), 1.0);
    CheckpointManager manager = open();
    for (int i = 0; i < 5; ++i) {
      save(manager);
      expect_saved();
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_F(UnchangedTest, IsKnownOfSavesInTheBackgroundToo) {
  CheckpointManager manager = open();
  for (int i = 0; i < 6; ++i) {
    field[static_cast<std::size_t>(i) * 40'000] += 1;
    ++step;
    CheckpointManager::SaveRequest request;
    request.number = static_cast<std::uint64_t>(step);
    manager.save_in_background(request);
    manager.finish_background_save();
    expect_saved();
  }
  flip_bit_in_recycled(true);
  save(manager);
  EXPECT_THAT(problems_of(file()), SizeIs(1));
}

TEST_F(UnchangedTest, IsNothingAfterASaveThatFailed) {
  CheckpointManager manager = open();
  save(manager);
  save(manager);
  std::filesystem::path blocked = directory / ("run/ckpt-" + std::to_string(step + 1) + ".h5");
  on_rank_0([&] { fs::create_directory(blocked); });
  field[5] += 1;
  EXPECT_THROW(manager.save(static_cast<std::uint64_t>(step + 1)), StorageError);
  on_rank_0([&] { fs::remove(blocked); });
  for (int i = 0; i < 4; ++i) {
    save(manager);
    expect_saved();
  }
}

}  // namespace
}  // namespace reprieve::test
