// SPDX-License-Identifier: BSD-3-Clause
// Arrays whose chunks are compressed: read by this library on any number of ranks, and by HDF5 with its filter.

#include <hdf5.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <tuple>

#include "storage/bytes/compression.hpp"
#include "storage/hdf5/hdf5_layout.hpp"
#include "storage/read/inspect_file.hpp"
#include "storage/write/checkpoint_writer.hpp"
#include "storage_fixture.hpp"

namespace reprieve::storage {
namespace {

using test::world_rank;
using test::world_size;

/// What HDF5's plugin does with a chunk that it reads.
std::size_t read_filter(unsigned flags, std::size_t, const unsigned*, std::size_t bytes, std::size_t* size,
                        void** buffer) {
  constexpr std::size_t kMost = std::size_t{8} << 20U;
  std::size_t chunk = 0;
  std::memcpy(&chunk, static_cast<const char*>(*buffer) + 4, 4);  // Blosc's header says what comes out
  void* const result = chunk <= kMost ? std::malloc(chunk) : nullptr;
  if ((flags & H5Z_FLAG_REVERSE) == 0 || result == nullptr ||
      !decompress({static_cast<const std::byte*>(*buffer), bytes}, {static_cast<std::byte*>(result), chunk})) {
    std::free(result);
    return 0;
  }
  std::free(*buffer);
  *buffer = result;
  *size = chunk;
  return chunk;
}

/// HDF5 knows Blosc while it lives.
class RegisteredFilter {
 public:
  RegisteredFilter() {
    const H5Z_class2_t filter{H5Z_CLASS_T_VERS, kBloscFilter, 1, 1, "blosc", nullptr, nullptr, read_filter};
    EXPECT_GE(H5Zregister(&filter), 0);
  }
  ~RegisteredFilter() { EXPECT_GE(H5Zunregister(kBloscFilter), 0); }
  RegisteredFilter(const RegisteredFilter&) = delete;
  RegisteredFilter& operator=(const RegisteredFilter&) = delete;
};

/// An HDF5 file, which may lie in memory, and its dataset of doubles "/state/field".
class Hdf5Field {
 public:
  explicit Hdf5Field(const std::filesystem::path& file) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_stdio(access);
    file_ = H5Fopen(file.c_str(), H5F_ACC_RDONLY, access);
    H5Pclose(access);
    dataset_ = H5Dopen2(file_, "/state/field", H5P_DEFAULT);
    EXPECT_GE(dataset_, 0);
  }
  ~Hdf5Field() {
    H5Dclose(dataset_);
    H5Fclose(file_);
  }
  Hdf5Field(const Hdf5Field&) = delete;
  Hdf5Field& operator=(const Hdf5Field&) = delete;

  void read(std::vector<double>& values) const {
    EXPECT_GE(H5Dread(dataset_, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  }

  /// Of the chunk that begins with this element: bytes in the file, and whether it is compressed.
  [[nodiscard]] std::pair<std::uint64_t, bool> chunk_at(std::uint64_t element) const {
    unsigned mask = 0;
    haddr_t address = 0;
    hsize_t size = 0;
    const hsize_t offset = element;
    EXPECT_GE(H5Dget_chunk_info_by_coord(dataset_, &offset, &mask, &address, &size), 0);
    return {size, mask == 0};
  }

 private:
  hid_t file_ = -1;
  hid_t dataset_ = -1;
};

class StorageCompression : public StorageTest {
 protected:
  void SetUp() override {
    if (!can_compress()) {
      GTEST_SKIP() << "built without Blosc";
    }
  }

  void save(cluster::Communicator& comm, const Checkpoint& checkpoint, bool recycle = false) const {
    FileMetadata metadata;
    metadata.number = ++number_;
    write_checkpoint(comm, checkpoint.registry(), file, metadata,
                     {.compress = {Compression::lz4, false}, .recycle = recycle}, cache);
  }

  [[nodiscard]] FileIndex index() const { return read_index(PosixFile::open_to_read(file)); }

  /// Blocks that are compressed, of all.
  [[nodiscard]] std::pair<std::size_t, std::size_t> compressed_blocks() const {
    const FileIndex read = index();
    const auto sizes = read.compressed_sizes.span();
    return {sizes.size() - static_cast<std::size_t>(std::ranges::count(sizes, 0U)), sizes.size()};
  }

  static GhostedGrid grid_of(const Extents& shape, std::size_t cut, int part, int parts) {
    Extents offset(shape.size(), 0);
    Extents extent(shape);
    std::tie(offset[cut], extent[cut]) = part_of(shape[cut], part, parts);
    return {shape, offset, extent, 1};
  }

  void expect_restored(const Extents& shape, std::size_t cut, int parts) {
    on_ranks(parts, [&](cluster::Communicator& comm) {
      GhostedGrid grid = grid_of(shape, cut, comm.rank(), parts);
      Checkpoint checkpoint;
      grid.register_in(checkpoint, "field");
      restore(comm, checkpoint);
      EXPECT_EQ(grid.wrong(), 0U);
    });
  }

 private:
  mutable std::uint64_t number_ = 0;
};

std::vector<double> expected_field(const Extents& shape) {
  std::vector<double> values;
  values.reserve(volume(shape));
  for_each_index(whole(shape), [&](const Extents& at) { values.push_back(GhostedGrid::expected(at)); });
  return values;
}

TEST_F(StorageCompression, IsReadByHdf5AndOnAnyNumberOfRanks) {
  const Extents shape{130, 72, 96};  // 7 MiB; the last chunk is not whole
  for (const std::size_t cut : {0U, 1U}) {
    GhostedGrid grid = grid_of(shape, cut, world_rank(), world_size());
    grid.set();
    Checkpoint checkpoint;
    grid.register_in(checkpoint, "field");
    cache = {};
    save(world, checkpoint);
    on_rank_0([&] {
      const auto [compressed, all] = compressed_blocks();
      EXPECT_TRUE(cut == 1 || compressed > 0);
      EXPECT_TRUE(cut == 1 || all > compressed) << "chunks of several ranks, or at the edge, are not";
      EXPECT_EQ(read_metadata(file).format_version == 3, compressed > 0);
      EXPECT_TRUE(verify_file(file).empty());
      const RegisteredFilter filter;
      std::vector<double> values(volume(shape));
      Hdf5Field(file).read(values);
      EXPECT_EQ(values, expected_field(shape));
      const VariableReader reader(file);
      std::vector<double> piece(70'001);  // neither rows nor planes
      reader.read("field", 90'000, std::as_writable_bytes(std::span(piece)));
      EXPECT_TRUE(std::equal(piece.begin(), piece.end(), values.begin() + 90'000));
    });
    for (int parts = 1; parts <= world_size(); ++parts) {
      expect_restored(shape, 1 - cut, parts);
    }
  }
}

TEST_F(StorageCompression, OfValuesOfRanks) {
  std::vector<double> values(400'000 + 1000 * static_cast<std::size_t>(world_rank()));
  Checkpoint checkpoint;
  checkpoint.add_per_rank("own", values);
  for (const double first : {1.0, 2.0}) {  // the second is written over the first
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = first + static_cast<double>(i / 8 + static_cast<std::size_t>(world_rank()));
    }
    save(world, checkpoint, first > 1);
    const std::vector<double> saved = std::exchange(values, {});
    on_rank_0([&] {
      EXPECT_GT(compressed_blocks().first, 0U);
      EXPECT_TRUE(verify_file(file).empty());
    });
    restore(world, checkpoint);
    EXPECT_EQ(values, saved);
  }
}

/// Noise is written as it is, over a file whose chunks were compressed.
TEST_F(StorageCompression, FollowsWhatTheArrayHolds) {
  std::vector<double> values(1 << 20);
  Checkpoint checkpoint;
  const auto [first, count] = part_of(values.size(), world_rank(), world_size());
  checkpoint.add_distributed("field", values.data() + first, {{values.size()}, {first}, {count}});
  bool recycles = false;
  for (const bool is_noise : {false, true, false}) {
    std::uint64_t state = 1;
    for (double& value : values) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      value = is_noise ? static_cast<double>(state) : 1.5;
    }
    const std::vector<double> saved = values;
    save(world, checkpoint, recycles);
    recycles = true;
    std::ranges::fill(values, 0);
    restore(world, checkpoint);
    EXPECT_TRUE(std::ranges::equal(std::span(values).subspan(first, count), std::span(saved).subspan(first, count)));
    on_rank_0([&] {
      EXPECT_EQ(compressed_blocks().first > 0, !is_noise);
      EXPECT_TRUE(verify_file(file).empty());
      const RegisteredFilter filter;
      Hdf5Field(file).read(values);
      EXPECT_EQ(values, saved);
    });
  }
}

TEST_F(StorageCompression, IsFoundCorruptWhereverABitFlips) {
  const Extents shape{1 << 20};
  GhostedGrid grid = grid_of(shape, 0, world_rank(), world_size());
  grid.set();
  Checkpoint checkpoint;
  grid.register_in(checkpoint, "field");
  save(world, checkpoint);
  on_rank_0([&] {
    const FileIndex read = index();
    const StoredVariable& field = *read.find("field");
    const BoxRow row = read.row(field, 0);
    const std::uint64_t size = read.compressed_sizes[static_cast<std::size_t>(row.first_checksum)];
    ASSERT_GT(size, 0U);
    std::size_t found = 0;
    for (std::uint64_t tenth = 0; tenth < 10; ++tenth) {
      flip(field.file_offset + 16 + (size - 17) * tenth / 9);  // after Blosc's header
      found += verify_file(file).size();
      flip(field.file_offset + 16 + (size - 17) * tenth / 9);
    }
    EXPECT_GE(found, 7U) << "a bit may change nothing of what comes out";
    EXPECT_LE(found, 10U);
    flip(field.file_offset + size);  // belongs to nothing
    EXPECT_TRUE(verify_file(file).empty());
  });
}

/// The structure of a restored file serves the next save: its index says what was compressed then.
TEST_F(StorageCompression, BeginsAgainWithTheStructureOfAFile) {
  std::vector<double> values(1 << 20, 2.5);
  Checkpoint checkpoint;
  const auto [first, count] = part_of(values.size(), world_rank(), world_size());
  checkpoint.add_distributed("field", values.data() + first, {{values.size()}, {first}, {count}});
  save(world, checkpoint);
  cache = {};
  if (world.is_rank_0()) {
    cache.model = LayoutCache::Model{core::FileAddress(file), index()};
  }
  std::mt19937_64 random(3);
  std::ranges::generate(values, [&] { return static_cast<double>(random()); });
  const std::vector<double> saved = values;
  const std::filesystem::path next = directory / "ckpt-8.h5";
  write_checkpoint(world, checkpoint.registry(), next, {}, {.compress = {Compression::lz4, false}}, cache);
  on_rank_0([&] {
    EXPECT_TRUE(verify_file(next).empty());
    Hdf5Field(next).read(values);
    EXPECT_EQ(values, saved);
  });
}

TEST_F(StorageCompression, IsLeftOutWhereTheProgramHasTheFilterItself) {
  const RegisteredFilter filter;
  GhostedGrid grid = grid_of({1 << 20}, 0, world_rank(), world_size());
  grid.set();
  Checkpoint checkpoint;
  grid.register_in(checkpoint, "field");
  testing::internal::CaptureStderr();
  save(world, checkpoint);
  const std::string reported = testing::internal::GetCapturedStderr();
  on_rank_0([&] {
    EXPECT_FALSE(index().find("field")->compressed);
    EXPECT_THAT(reported,
                testing::HasSubstr("compress has no effect: the program has registered a filter of Blosc with HDF5"));
  });
  expect_restored({1 << 20}, 0, 1);
}

TEST_F(StorageCompression, IsLeftOutInThePageCache) {
  std::vector<double> values(3 << 20, 1.5);
  Checkpoint checkpoint;
  checkpoint.add_per_rank("own", values);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    write_checkpoint(world, checkpoint.registry(), file, {}, {.io = FileIo::page_cache, .compress = {Compression::lz4}},
                     cache);
  }
  const std::string reported = testing::internal::GetCapturedStderr();
  const std::string text = "compress has no effect: writes to the checkpoint directory do not bypass the page cache";
  EXPECT_EQ(reported.find(text) != std::string::npos, world.is_rank_0());
  EXPECT_EQ(reported.find(text), reported.rfind(text)) << "once";
}

/// An index of more than 1,024 chunks lies in pages. The array is never touched.
TEST_F(StorageCompression, HasLongIndexes) {
  on_ranks(1, [&](cluster::Communicator& comm) {
    constexpr std::uint64_t kChunks = 2500;
    constexpr std::uint64_t kOfChunk = 1 << 17;
    void* const memory =
        ::mmap(nullptr, kChunks << 20U, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    Checkpoint checkpoint;
    checkpoint.add_distributed("field", static_cast<double*>(memory),
                               {{kChunks * kOfChunk}, {0}, {kChunks * kOfChunk}});
    CheckpointWriter(comm, core::FileAddress(file), {.compress = {Compression::lz4, false}}, cache)
        .plan_ahead(checkpoint.registry(), {});
    LaidOutFile& laid_out = *cache.content->file;
    std::vector<std::uint64_t> sizes(kChunks);
    for (std::uint64_t i = 0; i < kChunks; i += 3) {
      sizes[i] = 1000 + i;
    }
    laid_out.index().compressed_sizes = SharedWords(sizes);
    const PosixFile target = PosixFile::create_in_memory();
    target.set_size(laid_out.index().file_size);
    laid_out.write_chunk_sizes(target);
    const Hdf5Field field(target.path());
    for (std::uint64_t i = 0; i < kChunks; ++i) {
      const auto expected = std::pair(sizes[i] > 0 ? sizes[i] : kOfChunk * sizeof(double), sizes[i] > 0);
      ASSERT_EQ(field.chunk_at(i * kOfChunk), expected) << i;
    }
    ::munmap(memory, kChunks << 20U);
  });
}

}  // namespace
}  // namespace reprieve::storage
