// SPDX-License-Identifier: BSD-3-Clause
// Arrays that lie in the file as chunks: where each element is, which chunks an array gets, ranges of elements.

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "storage/bytes/posix_file.hpp"
#include "storage/format/dataset.hpp"
#include "storage/write/data_stream.hpp"
#include "support/boxes_and_bytes.hpp"
#include "support/child.hpp"
#include "support/small_files.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::storage {
namespace {

constexpr std::size_t kDoubleBytes = sizeof(double);

/// Where HDF5 keeps an element, said in the plainest way: the number of its chunk, and its place within it.
std::uint64_t plain_place(const Dataset& dataset, const Extents& index) {
  std::uint64_t chunk = 0;
  std::uint64_t within = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    chunk = chunk * ((dataset.shape[d] + dataset.chunk[d] - 1) / dataset.chunk[d]) + index[d] / dataset.chunk[d];
    within = within * dataset.chunk[d] + index[d] % dataset.chunk[d];
  }
  return dataset.file_offset + (chunk * volume(dataset.chunk) + within) * dataset.element_size;
}

/// Boxes of a grid of ranks that cuts the array as evenly as it goes.
std::vector<Box> cut(const Extents& shape, const Extents& ranks) {
  std::vector<Box> boxes;
  for_each_index(whole(ranks), [&](const Extents& at) {
    Box box(whole(shape));
    for (std::size_t d = 0; d < at.size(); ++d) {
      box.offset[d] = shape[d] * at[d] / ranks[d];
      box.extent[d] = shape[d] * (at[d] + 1) / ranks[d] - box.offset[d];
    }
    boxes.push_back(box);
  });
  return boxes;
}

/// A look at the blocks that meet another box must not miss any.
void expect_blocks_found(const Dataset& dataset, const Box& box, const Box& wanted) {
  const ChunkedSplit split(dataset, box);
  const std::vector<std::uint64_t> found = split.intersecting(wanted);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
  for (std::uint64_t i = 0; i < split.count(); ++i) {
    if (volume(intersection(split.block(i), wanted).extent) > 0) {
      EXPECT_TRUE(std::binary_search(found.begin(), found.end(), i)) << text_of(wanted);
    }
  }
  EXPECT_TRUE(found.empty() || found.back() < split.count());
}

TEST(Chunks, HaveEveryElementOfABoxOnceAndAtItsPlace) {
  std::mt19937 engine(5);
  const auto upto = [&](std::uint64_t most) { return 1 + engine() % most; };
  for (int round = 0; round < 200; ++round) {
    Dataset dataset{4096, {upto(9), upto(9), upto(9)}, kDoubleBytes, {}};
    Box box(whole(dataset.shape));
    for (std::size_t d = 0; d < 3; ++d) {
      dataset.chunk.push_back(upto(dataset.shape[d]));
      box.extent[d] = upto(dataset.shape[d]);
      box.offset[d] = engine() % (dataset.shape[d] - box.extent[d] + 1);
    }
    const std::vector<ChunkPart> parts = chunk_parts(dataset, box);
    EXPECT_EQ(chunk_count(dataset.chunk, box.offset, box.extent), parts.size());
    EXPECT_EQ(is_whole_chunks(dataset.shape, dataset.chunk, box.offset, box.extent),
              std::all_of(parts.begin(), parts.end(), [](const ChunkPart& part) { return part.is_all; }));
    expect_blocks_found(dataset, box, Box{box.offset, Extents(3, 1)});
    expect_blocks_found(dataset, box, {Extents(3, 0), dataset.shape});
    std::multiset<Extents> seen;
    std::uint64_t last = 0;
    for (const ChunkPart& part : parts) {
      EXPECT_GT(part.dataset.file_offset, last);
      last = part.dataset.file_offset;
      std::vector<std::uint64_t> places;
      for_each_index(part.box, [&](const Extents& index) {
        seen.insert(index);
        places.push_back(plain_place(dataset, index));
      });
      std::size_t next = 0;
      const Strides strides = dense_strides(part.dataset.shape, kDoubleBytes);
      for_each_index(part.within, [&](const Extents& index) {
        const auto within = static_cast<std::uint64_t>(state::distance(index, strides, 3));
        EXPECT_EQ(part.dataset.file_offset + within, places[next++]);
      });
      EXPECT_EQ(chunk_part(dataset, part.box).dataset.file_offset, part.dataset.file_offset);
      EXPECT_EQ(chunk_part(dataset, part.box).within, part.within);
    }
    EXPECT_EQ(seen.size(), volume(box.extent));
    for_each_index(box, [&](const Extents& index) { EXPECT_EQ(seen.count(index), 1U); });
  }
}

TEST(Chunks, TellWhoHasAllOfThem) {
  const Dataset dataset{0, {10, 10}, kDoubleBytes, {4, 4}};
  for (const ChunkPart& part : chunk_parts(dataset, whole({10, 10}))) {
    EXPECT_TRUE(part.is_all);
  }
  const auto parts = chunk_parts(dataset, {{4, 8}, {5, 2}});  // a padded chunk, and a part of the corner's
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_TRUE(parts[0].is_all);
  EXPECT_FALSE(parts[1].is_all);
}

TEST(Chunks, AreCutIntoBlocksOneByOne) {
  const Dataset dataset{0, {10, 1 << 20U}, kDoubleBytes, {5, 1 << 19U}};
  const Box box{{0, 0}, {7, 1 << 20U}};
  const ChunkedSplit split(dataset, box);
  std::uint64_t elements = 0;
  for (std::uint64_t i = 0; i < split.count(); ++i) {
    const Box block = split.block(i);
    elements += volume(block.extent);
    EXPECT_EQ(chunk_part(dataset, block).box, block) << "a block lies in one chunk";
  }
  EXPECT_EQ(elements, volume(box.extent));
  expect_blocks_found(dataset, box, {{6, 1 << 19U}, {4, 1}});
  EXPECT_TRUE(split.intersecting({{8, 0}, {2, 5}}).empty()) << "beyond the box";
  EXPECT_EQ(ChunkedSplit(dataset, {{0, 0}, {0, 5}}).count(), 0U);
}

TEST(Chunks, TakeTheirPaddingInTheFile) {
  std::uint64_t bytes = 0;
  EXPECT_TRUE(stored_bytes({10, 10}, {4, 5}, 8, bytes));
  EXPECT_EQ(bytes, 12U * 10U * 8U);
  EXPECT_TRUE(stored_bytes({10, 10}, {}, 8, bytes));
  EXPECT_EQ(bytes, 800U);
  EXPECT_FALSE(stored_bytes({~std::uint64_t{0}, 2}, {~std::uint64_t{0} - 1, 1}, 8, bytes));
}

TEST(Chunks, AreNoLargerThanHdf5sChunks) {
  const Extents shape{1ULL << 40U, 1ULL << 20U};
  EXPECT_TRUE(is_possible_chunk(shape, {1ULL << 16U, 1ULL << 12U}, 8));
  EXPECT_FALSE(is_possible_chunk(shape, {1ULL << 17U, 1ULL << 12U}, 8)) << "4 GiB";
  EXPECT_FALSE(is_possible_chunk(shape, {1ULL << 20U, 1ULL << 12U}, 1)) << "2^32 elements";
  EXPECT_FALSE(is_possible_chunk(shape, {1ULL << 39U, 1ULL << 39U}, 1)) << "wraps around";
  EXPECT_FALSE(is_possible_chunk({4096, 4096}, {0, 4096}, 8));
  EXPECT_TRUE(is_possible_chunk({4096, 4096}, {1, 512}, 8));
  EXPECT_FALSE(is_possible_chunk({4096, 4096}, {1, 511}, 8)) << "too small";
  EXPECT_FALSE(is_possible_chunk({800, 800}, {801, 10}, 8)) << "longer than the array";
  EXPECT_FALSE(is_possible_chunk({800, 800}, {800, 800}, 8)) << "one chunk is none";
}

TEST(ChunkChoice, IsTheBoxOfARegularCut) {
  const Extents shape{256, 256, 256};
  EXPECT_EQ(choose_chunk(shape, kDoubleBytes, cut(shape, {2, 2, 2})), (Extents{128, 128, 128}));
  EXPECT_EQ(choose_chunk(shape, kDoubleBytes, cut(shape, {1, 4, 2})), (Extents{256, 64, 128}));
  const std::vector<Box> uneven{{{0, 0}, {1000, 600}}, {{0, 600}, {1000, 400}}};
  EXPECT_EQ(choose_chunk({1000, 1000}, kDoubleBytes, uneven), (Extents{1000, 200}));
  const std::vector<Box> odd{{{0, 0, 0}, {101, 101, 51}}, {{0, 0, 51}, {101, 101, 50}}};
  EXPECT_EQ(choose_chunk({101, 101, 101}, kDoubleBytes, odd), (Extents{101, 101, 51}))
      << "the padding is left to the last of each row";
}

TEST(ChunkChoice, IsNothingWhereRowsAreLongOrAnArrayIsSmall) {
  const Extents shape{4096, 1024};
  EXPECT_TRUE(choose_chunk(shape, kDoubleBytes, cut(shape, {4, 1})).empty()) << "cut in the first dimension alone";
  EXPECT_TRUE(choose_chunk({300, 300}, kDoubleBytes, cut({300, 300}, {1, 2})).empty()) << "less than 2 MiB";
  EXPECT_TRUE(choose_chunk({1 << 20U}, kDoubleBytes, cut({1 << 20U}, {64})).empty()) << "one dimension";
  EXPECT_TRUE(choose_chunk(shape, kDoubleBytes, {}).empty()) << "nobody holds anything";
  const Extents thin{1024, 1024};
  EXPECT_TRUE(choose_chunk(thin, kDoubleBytes, cut(thin, {64, 1})).empty()) << "16 rows to a rank";
  const Extents wide{16, 1 << 20U};
  EXPECT_TRUE(choose_chunk(wide, kDoubleBytes, cut(wide, {1, 2})).empty()) << "rows of 4 MiB";
}

TEST(ChunkChoice, IsAPartOfBoxesThatFitNoGrid) {
  const Extents shape{1000, 1001, 997};
  const Extents chunk = choose_chunk(shape, kDoubleBytes, cut(shape, {3, 3, 2}));
  ASSERT_EQ(chunk.size(), 3U);
  EXPECT_GE(volume(chunk) * kDoubleBytes, kLeastChunkBytes);
  EXPECT_LT(volume(chunk) * kDoubleBytes, 4 * kLeastChunkBytes);
  const Extents pencils = choose_chunk(shape, kDoubleBytes, cut(shape, {3, 1, 2}));
  ASSERT_EQ(pencils.size(), 3U);
  EXPECT_EQ(pencils[1], shape[1]) << "what nobody cuts stays whole";
  const Extents small{100, 101, 97};
  EXPECT_TRUE(choose_chunk(small, kDoubleBytes, cut(small, {3, 3, 2})).empty())
      << "borders would cut most of the chunks";
}

TEST(ChunkChoice, PadsNoMoreThanAQuarter) {
  const Extents shape{1000, 601};
  const Extents chunk =
      choose_chunk(shape, kDoubleBytes, std::vector<Box>{{{0, 0}, {1000, 600}}, {{0, 600}, {1000, 1}}});
  EXPECT_EQ(chunk.size(), 2U);
  std::uint64_t bytes = 0;
  EXPECT_TRUE(stored_bytes(shape, chunk, kDoubleBytes, bytes));
  EXPECT_LE(bytes, 1000 * 601 * kDoubleBytes * 5 / 4) << "a chunk of 600 columns would take twice the array";
}

TEST(ChunkChoice, KeepsTheNumberOfChunksInBounds) {
  const Extents shape{30'001, 30'001, 10'007};  // 72 TB on 29 x 29 x 97 ranks
  const Extents chunk = choose_chunk(shape, kDoubleBytes, cut(shape, {29, 29, 97}));
  std::uint64_t bytes = 0;
  EXPECT_TRUE(chunk.empty() ||
              (stored_bytes(shape, chunk, kDoubleBytes, bytes) && bytes / volume(chunk) / kDoubleBytes < 1U << 24U));
}

TEST(ChunkChoice, CutsWhatIsTooLargeForHdf5) {
  const Extents shape{4096, 4096, 4096};
  const Extents chunk = choose_chunk(shape, kDoubleBytes, cut(shape, {2, 2, 2}));
  EXPECT_TRUE(is_possible_chunk(shape, chunk, kDoubleBytes));
  EXPECT_EQ(2048 % chunk[0], 0U);
  EXPECT_EQ(chunk[2], 2048U) << "the first dimensions are cut";
}

TEST(Ranges, AreTheBoxesOfTheirElements) {
  std::mt19937 engine(7);
  for (int round = 0; round < 300; ++round) {
    const Extents shape{1 + engine() % 4, 1 + engine() % 4, 1 + engine() % 5};
    const std::uint64_t first = engine() % (volume(shape) + 1);
    const std::uint64_t count = engine() % (volume(shape) - first + 1);
    std::uint64_t next = first;
    const std::vector<Box> boxes = boxes_of_range(shape, first, count);
    EXPECT_LE(boxes.size(), 5U);
    for (const Box& box : boxes) {
      for_each_index(box, [&](const Extents& index) {
        EXPECT_EQ((index[0] * shape[1] + index[1]) * shape[2] + index[2], next++);
      });
    }
    EXPECT_EQ(next, first + count);
  }
  EXPECT_EQ(boxes_of_range({}, 0, 1).size(), 1U);
}

// Whatever way the bytes take, and however they are cut, the file holds them at their places and nothing else changes.

class DataStreamTest : public testing::TestWithParam<FileIo> {
 protected:
  DataStreamTest() {
    file_.allocate(kSize);
    file_.write_all(expected_, 0);
  }

  /// Writes a piece of the content to where it belongs.
  void write(std::uint64_t offset, std::size_t size) { write(std::span(content_).subspan(offset, size), offset); }
  void write(std::span<const std::byte> piece, std::uint64_t offset) {
    stream_.write(piece, offset);
    std::copy(piece.begin(), piece.end(), expected_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  void expect_written() {
    stream_.finish();
    Bytes found(kSize);
    file_.read_all(found, 0);
    EXPECT_TRUE(found == expected_);
  }

  static constexpr std::size_t kSize = (std::size_t{21} << 20U) + 123;
  std::mt19937 random_{5};
  const std::vector<std::byte> content_ = random_bytes(kSize);
  Bytes expected_ = Bytes(kSize, std::byte{0xee});
  // On a disk: the usual directory for temporary files may be in memory.
  test::TemporaryDirectory directory_{"/var/tmp"};
  PosixFile file_ = PosixFile::create(directory_.path() / "file");
  DataStream stream_{file_, GetParam(), kSize};
};

TEST_P(DataStreamTest, OneLargePieceThatBeginsAndEndsAnywhere) {
  write(4099, kSize - 9001);
  expect_written();
}

TEST_P(DataStreamTest, PiecesThatFollowEachOther) {
  for (std::size_t offset = 100; offset < kSize;) {
    const std::size_t size = std::min<std::size_t>(kSize - offset, 1 + random_() % 700'000);
    write(offset, size);
    offset += size;
  }
  expect_written();
}

TEST_P(DataStreamTest, ScatteredPiecesLeaveAloneWhatLiesBetween) {
  for (std::size_t offset = 7; offset + 2'000'000 < kSize; offset += 2'000'000) {
    write(offset, 1 + random_() % 1'500'000);
  }
  expect_written();
}

TEST_P(DataStreamTest, MoreSmallPiecesBehindALargeOneThanAreKeptForTheEnd) {
  write(0, 5'000'000);
  std::size_t offset = 5'000'000;
  for (int i = 0; i < 40; ++i, offset += 70'000) {
    write(offset + 1, 60'000);
  }
  write(offset, 1'000'000);
  offset += 1'000'000;
  for (int i = 0; i < 700; ++i, offset += 5000) {
    write(offset, 3);
  }
  expect_written();
}

TEST_P(DataStreamTest, PiecesInDescendingOrderAndOneOverAnother) {
  for (std::size_t count = 4; count > 0; --count) {
    write((count - 1) * 4'500'000, 4'500'000);
  }
  stream_.finish();
  write(1'000'000, 9'000'000);
  expect_written();
}

TEST_P(DataStreamTest, TheMemoryMayChangeOnceItIsHandedOver) {
  Bytes reused(5'000'000);
  for (std::size_t i = 0; i < 4; ++i) {
    std::fill(reused.begin(), reused.end(), static_cast<std::byte>(i));
    write(reused, i * reused.size());
  }
  expect_written();
}

TEST_P(DataStreamTest, AFileThatIsGivenUpHalfWayLeavesNothingUnderWay) {
  for (int i = 0; i < 5; ++i) {
    DataStream(file_, GetParam(), kSize).write(std::span(content_).first(kSize / 2), 0);
  }
}

std::string name_of(const testing::TestParamInfo<FileIo>& way) {
  constexpr std::array kNames{"automatic", "page_cache", "direct"};
  return kNames.at(static_cast<std::size_t>(way.param));
}

INSTANTIATE_TEST_SUITE_P(EveryWay, DataStreamTest,
                         testing::Values(FileIo::automatic, FileIo::page_cache, FileIo::direct), name_of);

TEST(DataStream, SmallStatesAndThoseInMemoryGoThroughThePageCache) {
  const test::TemporaryDirectory directory;
  const PosixFile file = PosixFile::create(directory.path() / "file");
  EXPECT_FALSE(DataStream(file, FileIo::automatic, 1000).is_direct());
  EXPECT_FALSE(DataStream(file, FileIo::page_cache, 1U << 30U).is_direct());
  EXPECT_FALSE(DataStream(PosixFile::create_in_memory(), FileIo::automatic, 1U << 30U).is_direct());
}

/// A limit on the size of files stands for a disk that fails.
TEST(DataStream, AnErrorOfAWriteUnderWayIsReported) {
  const test::TemporaryDirectory directory;
  const PosixFile file = PosixFile::create(directory.path() / "file");
  const test::SmallFiles full_disk(1U << 20U);
  for (const FileIo io : {FileIo::page_cache, FileIo::direct}) {
    const auto write = [&] {
      DataStream stream(file, io, 1U << 26U);
      const Bytes bytes(std::size_t{1} << 26U);
      stream.write(bytes, 0);
      stream.finish();
    };
    EXPECT_THAT(write, testing::Throws<StorageError>(testing::Property(&StorageError::code, ErrorCode::no_space)));
  }
}

/// Whether a child that may start no thread writes a file.
bool write_without_threads(const PosixFile& file, std::span<const std::byte> content) {
  ::alarm(60);  // it must not wait for threads that there are not
  constexpr uid_t kNobody = 65534;
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0 || (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0)) {
    return false;  // the limit does not bind root
  }
  try {
    std::thread([] {}).join();
    return false;
  } catch (const std::system_error&) {
  }
  DataStream stream(file, FileIo::direct, content.size());
  stream.write(content, 0);
  stream.finish();
  return true;
}

TEST(DataStream, WithoutAThreadToBeHadThisOneWrites) {
  const test::TemporaryDirectory directory{"/var/tmp"};
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  const Bytes content(std::size_t{5} << 20U, std::byte{7});
  const PosixFile file = PosixFile::create(directory.path() / "file");
  ASSERT_EQ(::chmod(file.path().c_str(), 0666), 0);
  ASSERT_TRUE(test::in_child([&] { return write_without_threads(file, content); }));
  Bytes found(content.size());
  file.read_all(found, 0);
  EXPECT_TRUE(found == content);
}

}  // namespace
}  // namespace reprieve::storage
