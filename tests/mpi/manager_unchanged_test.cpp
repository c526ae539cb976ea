// SPDX-License-Identifier: BSD-3-Clause
// What a file that is written over holds already is left as it lies, and nothing else is. A bit that the disk flips
// there shows what was left; no time of the file tells of it.

#include <sys/stat.h>

#include "manager_fixture.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;
using testing::SizeIs;

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
      struct stat status = {};
      ASSERT_EQ(::stat(spare.c_str(), &status), 0);
      std::fstream stream(spare, std::ios::in | std::ios::out | std::ios::binary);
      const auto place = static_cast<std::streamoff>(fs::file_size(spare) / 2);
      stream.seekg(place);
      const int byte = stream.get() ^ 4;
      stream.seekp(place);
      stream.put(static_cast<char>(byte));
      stream.close();
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
  if (world_rank() == 0) {
    fs::create_directory(blocked);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  field[5] += 1;
  EXPECT_THROW(manager.save(static_cast<std::uint64_t>(step + 1)), StorageError);
  if (world_rank() == 0) {
    fs::remove(blocked);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 4; ++i) {
    save(manager);
    expect_saved();
  }
}

}  // namespace
}  // namespace reprieve::test
