// SPDX-License-Identifier: BSD-3-Clause
// Arrays that are cut in more than their first dimension: they lie in the file as chunks.

#include <fcntl.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "storage/read/inspect_file.hpp"
#include "storage/write/checkpoint_writer.hpp"
#include "storage/write/write_item.hpp"
#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;

/// This rank's box of a field that the ranks cut along the last dimension, in columns, with a ghost layer in memory.
GhostedGrid columns_of(const Extents& shape, int part, int parts) {
  const auto [first, count] = part_of(shape[2], part, parts);
  return {shape, {0, 0, first}, {shape[0], shape[1], count}, 1};
}

const Extents kRegular{60, 60, 12 * 12};  // 2, 3, 4, 6, 8 ranks, and others, cut it evenly or with a little padding
const Extents kIrregular{230, 231, 233};  // boxes of 20 MiB and more, that begin where no grid of chunks does

class StorageChunks : public StorageTest {
 protected:
  [[nodiscard]] Extents chunk_of(const std::string& name) const {
    return read_index(PosixFile::open_to_read(file)).find(name)->chunk;
  }

  /// Elements that HDF5 itself reads otherwise than they were written. On rank 0.
  [[nodiscard]] std::size_t wrong_for_hdf5(const Extents& shape) const {
    std::vector<double> values(volume(shape));
    const hid_t opened = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(opened, "/state/field", H5P_DEFAULT);
    EXPECT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(dataset);
    H5Fclose(opened);
    return wrong_in(values, shape);
  }

  static std::size_t wrong_in(const std::vector<double>& values, const Extents& shape) {
    std::size_t wrong = 0;
    std::size_t at = 0;
    for (std::uint64_t x = 0; x < shape[0]; ++x) {
      for (std::uint64_t y = 0; y < shape[1]; ++y) {
        for (std::uint64_t z = 0; z < shape[2]; ++z) {
          wrong += values[at++] == GhostedGrid::expected(std::array{x, y, z}) ? 0U : 1U;
        }
      }
    }
    return wrong;
  }

  void save_columns(const Extents& shape, int parts) {
    on_ranks(parts, [&](cluster::Communicator& comm) {
      GhostedGrid columns = columns_of(shape, comm.rank(), parts);
      columns.set();
      Checkpoint checkpoint;
      columns.register_in(checkpoint, "field");
      LayoutCache fresh;
      std::swap(cache, fresh);
      save(comm, checkpoint);
    });
  }

  void expect_restored(const Extents& shape, int parts) {
    on_ranks(parts, [&](cluster::Communicator& comm) {
      GhostedGrid columns = columns_of(shape, comm.rank(), parts);
      Checkpoint checkpoint;
      columns.register_in(checkpoint, "field");
      restore(comm, checkpoint);
      EXPECT_EQ(columns.wrong(), 0U);
    });
  }
};

TEST_F(StorageChunks, AreReadByHdf5AndOnAnyNumberOfRanks) {
  REPRIEVE_NEEDS_RANKS(2);
  for (const Extents& shape : {kRegular, kIrregular}) {
    save_columns(shape, world_size());
    on_rank_0([&] {
      EXPECT_EQ(chunk_of("field").size(), 3U);
      EXPECT_EQ(wrong_for_hdf5(shape), 0U);
      EXPECT_TRUE(verify_file(file).empty());
      EXPECT_EQ(read_metadata(file).format_version, 2);
    });
    for (int parts = 1; parts <= world_size(); ++parts) {
      expect_restored(shape, parts);
    }
  }
}

TEST_F(StorageChunks, GoBackToRowsOnOneRank) {
  save_columns(kRegular, 1);
  on_rank_0([&] {
    EXPECT_TRUE(chunk_of("field").empty());
    EXPECT_EQ(read_metadata(file).format_version, 1) << "what older versions can read says so";
  });
  for (int parts = 1; parts <= world_size(); ++parts) {
    expect_restored(kRegular, parts);
  }
}

TEST_F(StorageChunks, AreWrittenOverOlderOnesInARecycledFile) {
  REPRIEVE_NEEDS_RANKS(2);
  GhostedGrid columns =
      columns_of({60, 61, 145}, world_rank(), world_size());  // with padding, or with chunks that borders cut
  Checkpoint checkpoint;
  columns.register_in(checkpoint, "field");
  save(world, checkpoint);
  columns.set();
  FileMetadata metadata;
  metadata.number = 8;
  write_checkpoint(world, checkpoint.registry(), file, metadata,
                   {.writer = WriterKind::direct, .durable = true, .recycle = true}, cache);
  columns.forget();
  restore(world, checkpoint);
  EXPECT_EQ(columns.wrong(), 0U);
  on_rank_0([&] { EXPECT_TRUE(verify_file(file).empty()); });
}

TEST_F(StorageChunks, AreFoundCorruptWhereverABitFlips) {
  REPRIEVE_NEEDS_RANKS(2);
  save_columns(kRegular, world_size());
  on_rank_0([&] {
    const FileIndex index = read_index(PosixFile::open_to_read(file));
    const StoredVariable& field = *index.find("field");
    for (std::uint64_t tenth = 0; tenth < 10; ++tenth) {
      const std::uint64_t offset = field.file_offset + field.bytes() / 10 * tenth;
      flip(offset);
      const std::vector<Corruption> corruption = verify_file(file);
      EXPECT_EQ(corruption.size(), 1U) << offset;
      EXPECT_EQ(corruption.empty() ? "" : corruption.front().variable, "field");
      flip(offset);
    }
    EXPECT_TRUE(verify_file(file).empty());
  });
}

TEST_F(StorageChunks, AreReadPieceByPieceInTheOrderOfTheArray) {
  REPRIEVE_NEEDS_RANKS(2);
  save_columns(kRegular, world_size());
  on_rank_0([&] {
    const VariableReader reader(file);
    std::vector<double> values(volume(kRegular));
    const std::size_t piece = 70'001;  // neither rows nor planes
    for (std::size_t first = 0; first < values.size(); first += piece) {
      const std::size_t count = std::min(piece, values.size() - first);
      reader.read("field", first, std::as_writable_bytes(std::span(values).subspan(first, count)));
    }
    EXPECT_EQ(wrong_in(values, kRegular), 0U);
  });
}

/// Blocks of an adaptive mesh: 16 cells along each edge, with ghost layers in memory, shared out in turns.
TEST_F(StorageChunks, OfSmallBlocksAreWrittenEachByItsRank) {
  constexpr std::uint64_t kEdge = 16;
  constexpr std::uint64_t kPadded = kEdge + 2;
  constexpr std::uint64_t kBlocks = 5;
  const Extents shape{kEdge * kBlocks, kEdge * kBlocks, kEdge * kBlocks - 3};  // the last ones are padded
  std::vector<std::pair<Box, std::vector<double>>> blocks;
  for (std::uint64_t i = 0; i < kBlocks * kBlocks * kBlocks; ++i) {
    if (i % static_cast<std::uint64_t>(world_size()) == static_cast<std::uint64_t>(world_rank())) {
      Box box{{i / kBlocks / kBlocks * kEdge, i / kBlocks % kBlocks * kEdge, i % kBlocks * kEdge}, Extents(3, kEdge)};
      box.extent[2] = std::min(kEdge, shape[2] - box.offset[2]);
      blocks.emplace_back(box, std::vector<double>(kPadded * kPadded * kPadded));
    }
  }
  const auto at_each = [&](auto&& visit) {
    for (auto& [box, memory] : blocks) {
      for (std::uint64_t x = 0; x < box.extent[0]; ++x) {
        for (std::uint64_t y = 0; y < box.extent[1]; ++y) {
          for (std::uint64_t z = 0; z < box.extent[2]; ++z) {
            visit(memory[((x + 1) * kPadded + y + 1) * kPadded + z + 1],
                  GhostedGrid::expected(std::array{box.offset[0] + x, box.offset[1] + y, box.offset[2] + z}));
          }
        }
      }
    }
  };
  Checkpoint checkpoint;
  checkpoint.add_distributed("field", [&] {
    DistributedArray array{element_type_of<double>(), shape, {}};
    for (auto& [box, memory] : blocks) {
      auto* first = reinterpret_cast<std::byte*>(memory.data() + (kPadded + 1) * kPadded + 1);
      array.boxes.push_back({first, box.offset, box.extent, {8 * kPadded * kPadded, 8 * kPadded, 8}});
    }
    return array;
  });
  at_each([](double& value, double expected) { value = expected; });
  save(world, checkpoint);
  on_rank_0([&] {
    EXPECT_EQ(chunk_of("field"), Extents(3, kEdge));
    EXPECT_EQ(wrong_for_hdf5(shape), 0U);
    EXPECT_TRUE(verify_file(file).empty());
  });
  at_each([](double& value, double) { value = -1; });
  restore(world, checkpoint);
  std::size_t wrong = 0;
  at_each([&](double& value, double expected) { wrong += value == expected ? 0U : 1U; });
  EXPECT_EQ(wrong, 0U);
}

TEST_F(StorageChunks, AreNotMadeForTheWriterThatWorksThroughHdf5) {
  GhostedGrid columns = columns_of(kRegular, world_rank(), world_size());
  columns.set();
  Checkpoint checkpoint;
  columns.register_in(checkpoint, "field");
  save(world, checkpoint, WriterKind::mpio);
  on_rank_0([&] { EXPECT_TRUE(chunk_of("field").empty()); });
  columns.forget();
  restore(world, checkpoint);
  EXPECT_EQ(columns.wrong(), 0U);
}

// Arrays of several blocks a rank, which are read in other ways than small ones: from the page cache by plain
// calls, from the disk some blocks ahead.

enum class From { page_cache, disk };

class LargeArrays : public StorageTest, public testing::WithParamInterface<From> {
 protected:
  static constexpr std::uint64_t kOfARank = 1'700'003;  // elements: four blocks, the last one short

  LargeArrays() {
    state_.add_distributed("large", values_.data(), {{total()}, {first()}, {kOfARank}});
    state_.add_per_rank("own", own_);
    save(world, state_);
  }

  static std::uint64_t total() { return kOfARank * static_cast<std::uint64_t>(world_size()); }
  static std::uint64_t first() { return kOfARank * static_cast<std::uint64_t>(world_rank()); }

  template <class T>
  static std::vector<T> numbers(std::size_t count, T first) {
    std::vector<T> values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
  }

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
    return values_ == numbers(kOfARank, static_cast<double>(first())) && own_ == numbers(2'500'000, world_rank());
  }

  std::vector<double> values_ = numbers(kOfARank, static_cast<double>(first()));
  std::vector<int> own_ = numbers(2'500'000, world_rank());
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
    EXPECT_EQ(all, numbers(total(), 0.0));
  });
}

TEST_P(LargeArrays, CorruptionInThemIsNamed) {
  const StoredVariable large = *read_index(PosixFile::open_to_read(file)).find("large");
  MPI_Barrier(MPI_COMM_WORLD);
  on_rank_0([&] { flip(large.file_offset + 1'000'000 * sizeof(double)); });
  prepare();
  EXPECT_THAT(same_error([&] { restore(world, state_); }),
              is_error(ErrorCode::corrupt, "'large' is corrupt: elements [524288:1048576] written by rank 0"));
  prepare();
  on_rank_0([&] {
    const auto corruption = verify_file(file);
    ASSERT_EQ(corruption.size(), 1U);
    EXPECT_EQ(corruption[0].region, "elements [524288:1048576] written by rank 0");
  });
}

INSTANTIATE_TEST_SUITE_P(Reads, LargeArrays, testing::Values(From::page_cache, From::disk),
                         [](const auto& test) { return test.param == From::disk ? "disk" : "page_cache"; });

}  // namespace
}  // namespace reprieve::storage
