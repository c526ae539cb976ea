// SPDX-License-Identifier: BSD-3-Clause
// Thousands of small variables: packed by rank 0, laid out once, and the same bytes as ever.

#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;
using testing::SizeIs;

class SmallVariables : public StorageTest {
 protected:
  static constexpr std::size_t kCount = 300;

  SmallVariables() {
    mine_.reserve(kCount);
    shared_.reserve(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::string number = std::to_string(i);
      mine_.emplace_back(i % 17 + static_cast<std::size_t>(world_rank()));
      shared_.emplace_back(i % 5);
      state_.add_per_rank("mine/" + number, mine_[i]);
      state_.add_replicated("shared/" + number, shared_[i]);
    }
    const auto [first, count] = part_of(kRows, world_rank(), world_size());
    grid_ = std::make_unique<GhostedGrid>(Extents{kRows, 7}, Extents{first, 0}, Extents{count, 7}, 2);
    grid_->register_in(state_, "grid");
    state_.add_replicated("large", large_);
  }

  void set(int seed) {
    for (std::size_t i = 0; i < kCount; ++i) {
      std::fill(mine_[i].begin(), mine_[i].end(), seed + 1000 * world_rank() + static_cast<int>(i));
      std::fill(shared_[i].begin(), shared_[i].end(), seed + static_cast<int>(i));
    }
    std::fill(large_.begin(), large_.end(), seed);
    grid_->set();
  }

  void expect(int seed) {
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_THAT(mine_[i], testing::Each(seed + 1000 * world_rank() + static_cast<int>(i)));
      EXPECT_THAT(shared_[i], testing::Each(seed + static_cast<int>(i)));
    }
    EXPECT_THAT(large_, testing::Each(seed));
    EXPECT_EQ(grid_->wrong(), 0U);
  }

  void save_as(std::uint64_t number, const std::string& message, WriterKind writer = WriterKind::direct) {
    FileMetadata metadata;
    metadata.number = number;
    metadata.reason = {SaveReason::Kind::user, -1, "", "", message};
    write_checkpoint(world, state_.registry(), file, metadata, {writer, true}, cache);
  }

  static constexpr std::uint64_t kRows = 50;
  std::vector<std::vector<int>> mine_;
  std::vector<std::vector<int>> shared_;
  std::vector<std::int64_t> large_ = std::vector<std::int64_t>(1U << 18U);
  std::unique_ptr<GhostedGrid> grid_;
  Checkpoint state_;
};

TEST_F(SmallVariables, ComeBackFromEverySave) {
  for (int seed = 1; seed < 4; ++seed) {
    for (const WriterKind writer : {WriterKind::direct, WriterKind::mpio}) {
      for (int again = 0; again < 2; ++again) {
        set(seed + again);
        save_as(1, "", writer);
        EXPECT_THAT(verify_file(file), SizeIs(0));
        set(99);
        restore(world, state_);
        expect(seed + again);
      }
    }
  }
}

TEST_F(SmallVariables, AKeptLayoutHasTheMetadataOfEachSave) {
  set(1);
  // The third does not fit into the room that the first layout has for texts, the fourth is short again.
  for (const std::string& message :
       {std::string("first"), std::string(), std::string(9000, 'x'), std::string("last")}) {
    const std::uint64_t number = message.size() * 1'000'000'007;
    save_as(number, message);
    const FileMetadata metadata = read_metadata(file);
    EXPECT_EQ(metadata.number, number);
    EXPECT_EQ(metadata.reason.message, message);
    EXPECT_THAT(verify_file(file), SizeIs(0));
  }
}

TEST_F(SmallVariables, AnotherShapeIsAnotherLayout) {
  for (int round = 0; round < 3; ++round) {
    mine_[5].resize(static_cast<std::size_t>(round * 40 + world_rank()));
    set(round);
    save_as(1, "");
    EXPECT_THAT(verify_file(file), SizeIs(0));
    set(99);
    restore(world, state_);
    expect(round);
  }
}

/// What a manager does after a restore: the first save takes the structure of the file that was restored.
class SaveAfterARestart : public SmallVariables {
 protected:
  /// A program starts: nothing is known but the file.
  void start_again() {
    LayoutCache fresh;
    on_rank_0([&] { fresh.model = LayoutCache::Model{file, read_index(PosixFile::open_to_read(file))}; });
    std::swap(cache, fresh);
  }

  void expect_in_a_sound_file(int seed) {
    set(0);
    restore(world, state_);
    expect(seed);
    on_rank_0([&] { EXPECT_TRUE(verify_file(file).empty()); });
  }

  /// HDF5's structures as they lie in the file, without what changes from save to save.
  [[nodiscard]] std::vector<std::uint64_t> places() const {
    std::vector<std::uint64_t> offsets;
    const FileIndex index = read_index(PosixFile::open_to_read(file));
    for (const StoredVariable& variable : index.variables) {
      offsets.push_back(variable.file_offset);
    }
    offsets.push_back(index.file_size);
    return offsets;
  }
};

TEST_F(SaveAfterARestart, TakesTheStructureFromTheFile) {
  set(1);
  save_as(7, "before the restart");
  const auto before = places();
  start_again();
  set(2);
  save_as(8, "after it, with a message of another length");
  EXPECT_FALSE(cache.model.has_value() && world_rank() == 0) << "it was not looked at";
  EXPECT_EQ(places(), before);
  expect_in_a_sound_file(2);
  on_rank_0([&] {
    EXPECT_EQ(read_metadata(file).number, 8U);
    EXPECT_EQ(read_metadata(file).reason.message, "after it, with a message of another length");
  });
  set(3);
  save_as(9, "and once more");
  expect_in_a_sound_file(3);
}

TEST_F(SaveAfterARestart, IsLaidOutAgainForOtherVariables) {
  set(1);
  save_as(7, "");
  start_again();
  mine_[3].resize(mine_[3].size() + 5);  // one value more, so that all others have other places
  set(2);
  save_as(8, "");
  expect_in_a_sound_file(2);
}

TEST_F(SaveAfterARestart, DoesNotTakeCorruptionOver) {
  set(1);
  save_as(7, "");
  on_rank_0([&] {
    const FileIndex index = read_index(PosixFile::open_to_read(file));
    const CommitRecord commit_record = read_commit_record(PosixFile::open_to_read(file));
    flip(structure_regions(index, commit_record.checksums.region).front().offset + 100);  // HDF5's own
    EXPECT_FALSE(verify_file(file).empty());
  });
  start_again();
  set(2);
  save_as(8, "");
  expect_in_a_sound_file(2);
}

TEST_F(SaveAfterARestart, DoesWithoutAFileThatIsGone) {
  set(1);
  save_as(7, "");
  start_again();
  on_rank_0([&] { std::filesystem::remove(file); });
  save_as(8, "");
  on_rank_0([&] { EXPECT_TRUE(verify_file(file).empty()); });
}

}  // namespace
}  // namespace reprieve::storage
