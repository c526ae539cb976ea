// SPDX-License-Identifier: BSD-3-Clause
// Arrays of several blocks a rank, which are read in other ways than small ones: from the page cache by a mapping, from
// the disk some blocks ahead.

#include <fcntl.h>

#include <algorithm>
#include <numeric>

#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;
using testing::HasSubstr;

enum class From { page_cache, disk };

class LargeArrays : public StorageTest, public testing::WithParamInterface<From> {
 protected:
  static constexpr std::uint64_t kOfARank = 1'700'003;  // elements: four blocks, the last one short

  LargeArrays() {
    state_.add_distributed("large", values_.data(), {{total()}, {first()}, {kOfARank}});
    state_.add_per_rank("own", own_);
    std::iota(values_.begin(), values_.end(), static_cast<double>(first()));
    std::iota(own_.begin(), own_.end(), world_rank());
    save(world, state_);
  }

  static std::uint64_t total() { return kOfARank * static_cast<std::uint64_t>(world_size()); }
  static std::uint64_t first() { return kOfARank * static_cast<std::uint64_t>(world_rank()); }

  /// What the page cache holds of the file, and writes back first.
  void prepare() const {
    MPI_Barrier(MPI_COMM_WORLD);
    const PosixFile opened = PosixFile::open_to_write(file);
    if (GetParam() == From::disk) {
      opened.sync();
      static_cast<void>(::posix_fadvise(opened.descriptor(), 0, 0, POSIX_FADV_DONTNEED));
    } else {
      std::vector<std::byte> all(opened.size());
      opened.read_all(all, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void clear() {
    std::ranges::fill(values_, -1);
    std::ranges::fill(own_, -1);
  }

  [[nodiscard]] bool is_restored() const {
    for (std::uint64_t i = 0; i < kOfARank; ++i) {
      if (values_[i] != static_cast<double>(first() + i)) {
        return false;
      }
    }
    for (std::size_t i = 0; i < own_.size(); ++i) {
      if (own_[i] != world_rank() + static_cast<int>(i)) {
        return false;
      }
    }
    return true;
  }

  std::vector<double> values_ = std::vector<double>(kOfARank);
  std::vector<int> own_ = std::vector<int>(2'500'000);
  Checkpoint state_;
};

TEST_P(LargeArrays, AreRestoredWithAndWithoutChecksums) {
  for (const bool verify : {true, false}) {
    clear();
    prepare();
    restore_checkpoint(world, state_.registry(), file, verify);
    EXPECT_TRUE(is_restored());
  }
}

TEST_P(LargeArrays, AreRestoredOnOneRank) {
  on_ranks(1, [&](cluster::Communicator& comm) {
    std::vector<double> all(total());
    Checkpoint checkpoint;
    checkpoint.add_distributed("large", all.data(), {{total()}, {0}, {total()}});
    checkpoint.allow_dropped("own");
    restore_checkpoint(comm, checkpoint.registry(), file, true);
    std::vector<double> expected(total());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  });
}

TEST_P(LargeArrays, AreVerified) {
  prepare();
  on_chief([&] { EXPECT_TRUE(verify_file(file).empty()); });
}

TEST_P(LargeArrays, CorruptionInThemIsNamed) {
  const StoredVariable large = *read_index(PosixFile::open_to_read(file)).find("large");
  MPI_Barrier(MPI_COMM_WORLD);
  on_chief([&] { flip(large.file_offset + 1'000'000 * sizeof(double)); });
  prepare();
  const SeenError error = same_error([&] { restore(world, state_); });
  EXPECT_EQ(error.code, ErrorCode::corrupt);
  EXPECT_THAT(error.message, HasSubstr("'large' is corrupt: elements [524288:1048576] written by rank 0"));
  prepare();
  on_chief([&] {
    const auto corruption = verify_file(file);
    ASSERT_EQ(corruption.size(), 1U);
    EXPECT_EQ(corruption[0].region, "elements [524288:1048576] written by rank 0");
  });
}

INSTANTIATE_TEST_SUITE_P(Reads, LargeArrays, testing::Values(From::page_cache, From::disk),
                         [](const auto& test) { return test.param == From::disk ? "disk" : "page_cache"; });

}  // namespace
}  // namespace reprieve::storage
