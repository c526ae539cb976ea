// SPDX-License-Identifier: BSD-3-Clause
// What does not fit, is corrupt, or cannot be written: the same clear error on every rank.

#include "storage/bytes/checksum.hpp"
#include "storage/format/commit_record.hpp"
#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A small state with one variable of each kind, saved by all ranks.
class StorageErrors : public StorageTest {
 protected:
  StorageErrors() {
    const auto [first, count] = part_of(kRows, world_rank(), world_size());
    grid_ = std::make_unique<GhostedGrid>(Extents{kRows, 9}, Extents{first, 0}, Extents{count, 9}, 1);
    grid_->set();
    register_in(state_);
    mine_.assign(100, world_rank());
  }

  void register_in(Checkpoint& checkpoint) {
    checkpoint.add_replicated("shared/weights", weights_);
    checkpoint.add_replicated("shared/step", step_);
    checkpoint.add_per_rank("mine", mine_);
    grid_->register_in(checkpoint, "grid");
  }

  [[nodiscard]] FileIndex index() const { return read_index(PosixFile::open_to_read(file)); }

  SeenError restore_error(const Checkpoint& checkpoint) {
    return same_error([&] { restore(world, checkpoint); });
  }

  static constexpr std::uint64_t kRows = 40;
  std::vector<float> weights_{1, 2, 3};
  std::int64_t step_ = 12;
  std::vector<int> mine_;
  std::unique_ptr<GhostedGrid> grid_;
  Checkpoint state_;
};

/// The file of another run, which lives: what its index says is not of the data any more.
TEST_F(StorageErrors, AFileThatIsReplacedMeanwhileIsNotRead) {
  save(world, state_);
  for (const bool verify : {true, false}) {
    const std::int64_t saved = step_ + 100;
    const auto replace = [&] {
      step_ = saved;
      save(world, state_);
      step_ = -1;
    };
    EXPECT_THAT(same_error([&] { restore_checkpoint(world, state_.registry(), file, verify, replace); }),
                is_error(ErrorCode::io, "was replaced while it was being restored"));
    EXPECT_EQ(step_, -1) << "no variable is touched";
    restore(world, state_);
    EXPECT_EQ(step_, saved);
  }
}

TEST_F(StorageErrors, ADescriptionThatThrowsOnOneRankReachesAll) {
  Checkpoint checkpoint;
  const int culprit = world_size() - 1;
  checkpoint.add_distributed("values", [&]() -> DistributedArray {
    if (world_rank() == culprit) {
      throw std::runtime_error("no memory here");
    }
    return {element_type_of<double>(), {4}, {}};
  });
  const SeenError error = same_error([&] { save(world, checkpoint); });
  EXPECT_THAT(error.message, HasSubstr("no memory here"));
  EXPECT_EQ(error.origin_rank, culprit);
}

TEST_F(StorageErrors, NamesMustBeUtf8) {
  Checkpoint checkpoint;
  int value = 0;
  checkpoint.add_replicated("bad\xff", value);
  EXPECT_EQ(same_error([&] { save(world, checkpoint); }).code, ErrorCode::usage);
}

TEST_F(StorageErrors, ADirectoryThatIsNotThereNamesThePath) {
  for (const WriterKind writer : {WriterKind::direct, WriterKind::mpio}) {
    const SeenError error = same_error([&] {
      write_checkpoint(world, state_.registry(), directory / "none" / "x.h5", {}, {writer, true}, cache);
    });
    EXPECT_EQ(error.code, ErrorCode::io);
    EXPECT_THAT(error.message, HasSubstr("none/x.h5"));
  }
  const SeenError error =
      same_error([&] { restore_checkpoint(world, state_.registry(), directory / "none.h5", true); });
  EXPECT_EQ(error.code, ErrorCode::io);
  EXPECT_THAT(error.message, HasSubstr("none.h5"));
}

TEST_F(StorageErrors, ARestoreThatDoesNotFitListsEveryDifferenceAndTouchesNothing) {
  save(world, state_);
  double weights = 5;
  std::vector<int> mine{1, 2};
  std::array<std::int64_t, 2> step{8, 9};
  int extra = 4;
  Checkpoint other;
  other.add_replicated("shared/weights", weights);
  other.add_replicated("mine", mine);
  other.add_replicated("shared/step", step);
  other.add_replicated("extra", extra);
  const SeenError error = restore_error(other);
  EXPECT_EQ(error.code, ErrorCode::mismatch);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("'shared/weights': registered with elements of type float64, stored with float32"),
                    HasSubstr("'mine': registered as replicated, stored as per_rank"),
                    HasSubstr("'shared/step': registered with the shape [2], stored with []"),
                    HasSubstr("'extra': registered, but not in the checkpoint"),
                    HasSubstr("'grid': in the checkpoint, but not registered"), Not(HasSubstr("rank 0"))));
  EXPECT_EQ(weights, 5);
  EXPECT_EQ(mine, (std::vector<int>{1, 2}));
  EXPECT_EQ(step, (std::array<std::int64_t, 2>{8, 9}));
}

TEST_F(StorageErrors, ADifferenceOnOneRankReachesAll) {
  REPRIEVE_NEEDS_RANKS(2);
  save(world, state_);
  Checkpoint other;
  register_in(other);
  int extra = 0;
  if (world_rank() == 1) {
    other.add_replicated("extra", extra);
  }
  EXPECT_THAT(restore_error(other),
              is_error(ErrorCode::mismatch, "'extra': registered, but not in the checkpoint (rank 1)"));
}

TEST_F(StorageErrors, PerRankValuesNeedARedistributionOnAnotherNumberOfRanks) {
  REPRIEVE_NEEDS_RANKS(2);
  save(world, state_);
  on_ranks(1, [&](cluster::Communicator& comm) {
    Checkpoint other;
    other.add_replicated("shared/weights", weights_);
    other.add_replicated("shared/step", step_);
    other.add_per_rank("mine", mine_);
    GhostedGrid grid({kRows, 9}, {0, 0}, {kRows, 9}, 0);
    grid.register_in(other, "grid");
    EXPECT_THAT(error_of([&] { restore(comm, other); }), is_error(ErrorCode::mismatch, "'mine'", "redistribution"));
  });
}

TEST_F(StorageErrors, CorruptDataAreNamed) {
  save(world, state_);
  const FileIndex all = index();
  const StoredVariable grid = *all.find("grid");
  const auto row = all.row(grid, grid.box_count - 1);
  on_rank_0([&] { flip(grid.file_offset + grid.bytes() - 1); });
  const std::string region =
      "elements " + text_of(FileIndex::dataset_box(grid, row)) + " written by rank " + std::to_string(world_size() - 1);
  EXPECT_THAT(restore_error(state_), is_error(ErrorCode::corrupt, "'grid'", region));
  const auto corruption = verify_file(file);
  ASSERT_EQ(corruption.size(), 1U);
  EXPECT_EQ(corruption[0].variable, "grid");
  EXPECT_EQ(corruption[0].region, region);
  EXPECT_THROW(static_cast<void>(read_variable(file, "grid")), CorruptError);
  EXPECT_EQ(read_variable(file, "mine").size(), 400U * static_cast<std::size_t>(world_size()));
  restore_checkpoint(world, state_.registry(), file, false);  // as the caller asks
}

TEST_F(StorageErrors, ACorruptPerRankValueIsNamed) {
  save(world, state_);
  const StoredVariable mine = *index().find("mine");
  on_rank_0([&] { flip(mine.file_offset); });
  EXPECT_THAT(restore_error(state_).message, HasSubstr("'mine' is corrupt: elements [0:100] of the value of rank 0"));
}

TEST_F(StorageErrors, ATruncatedOrLongerFileIsNoticed) {
  save(world, state_);
  const std::uint64_t size = std::filesystem::file_size(file);
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{100}, kCommitRecordBytes, size / 2, size - 1, size + 1}) {
    on_rank_0([&] { std::filesystem::resize_file(file, length); });
    EXPECT_EQ(restore_error(state_).code, ErrorCode::corrupt) << length;
    EXPECT_FALSE(verify_file(file).empty()) << length;
    EXPECT_THROW(static_cast<void>(read_metadata(file)), CorruptError) << length;
  }
}

TEST_F(StorageErrors, AFileThatWasNotCommittedIsNotACheckpoint) {
  save(world, state_);
  on_rank_0([&] {
    const std::vector<char> zeros(kCommitRecordBytes, 0);
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).write(zeros.data(), kCommitRecordBytes);
  });
  EXPECT_THAT(restore_error(state_).message, HasSubstr("is an HDF5 file, but not a complete Reprieve checkpoint"));
}

TEST_F(StorageErrors, AFileOfAnotherKindIsNotACheckpoint) {
  on_rank_0([&] { std::ofstream(file) << std::string(10'000, 'x'); });
  EXPECT_THAT(restore_error(state_), is_error(ErrorCode::corrupt, "is not a Reprieve checkpoint, nor any HDF5 file"));
  MPI_Barrier(MPI_COMM_WORLD);
  on_rank_0([&] { std::ofstream(file) << "\x89HDF\r\n\x1a\n" + std::string(10'000, 'x'); });
  EXPECT_THAT(restore_error(state_).message, HasSubstr("is an HDF5 file, but"));
}

TEST_F(StorageErrors, AFutureFormatIsAMismatch) {
  save(world, state_);
  on_rank_0([&] {
    std::vector<std::uint64_t> words(kCommitRecordBytes / 8);
    const PosixFile opened = PosixFile::open_to_write(file);
    opened.read_all(std::as_writable_bytes(std::span(words)), 0);
    words[1] = 9;
    words.back() = xxh3(std::as_bytes(std::span(words)).first(kCommitRecordBytes - 8));
    opened.write_all(std::as_bytes(std::span(words)), 0);
  });
  EXPECT_THAT(restore_error(state_),
              is_error(ErrorCode::mismatch, "has format version 9; this library reads versions 1 to 3"));
  EXPECT_FALSE(verify_file(file).empty());
}

}  // namespace
}  // namespace reprieve::storage
