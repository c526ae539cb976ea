// SPDX-License-Identifier: BSD-3-Clause
// Which ranges of a file that is written over are left as they lie.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "storage/write/write_item.hpp"
#include "storage/write/writers.hpp"

namespace reprieve::storage {
namespace {

using Checks = WrittenRanges::Checks;
constexpr std::uint64_t kManyRanges = 400;

/// A state of whole ranges.
class WrittenRangesTest : public testing::Test {
 protected:
  WrittenRangesTest() : state(kManyRanges * kRangeBytes) {
    for (std::size_t i = 0; i < state.size(); ++i) {
      state[i] = static_cast<std::byte>(i * 7 + i / kRangeBytes);
    }
  }

  void change(std::uint64_t range, std::uint64_t place = 0) { state.at(range * kRangeBytes + place) ^= std::byte{1}; }

  [[nodiscard]] std::span<const std::byte> bytes_of(std::uint64_t range) const {
    return std::span(state).subspan(static_cast<std::size_t>(range * kRangeBytes), kRangeBytes);
  }

  /// A save into the file that @p over left. Returns which ranges were left out.
  std::vector<std::uint64_t> save(std::uint64_t over, bool is_last = false) {
    std::vector<std::uint64_t> left_out;
    const auto ranges = history.begin(over, ++saves, is_last);
    for (std::uint64_t range = 0; ranges && range < kManyRanges; ++range) {
      if (ranges->holds(bytes_of(range), range * kRangeBytes)) {
        left_out.push_back(range);
      }
    }
    return left_out;
  }

  [[nodiscard]] static std::vector<std::uint64_t> all_but(std::uint64_t one) {
    std::vector<std::uint64_t> ranges(kManyRanges);
    std::iota(ranges.begin(), ranges.end(), std::uint64_t{0});
    ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(one));
    return ranges;
  }

  std::vector<std::byte> state;
  WriteHistory history;
  std::uint64_t saves = 0;
};

TEST_F(WrittenRangesTest, WhatIsNotKnownIsWritten) {
  EXPECT_TRUE(save(0).empty());
  EXPECT_TRUE(save(0).empty()) << "another new file";
  EXPECT_TRUE(save(99).empty()) << "a file of a save that this one knows nothing of";
  EXPECT_EQ(save(1).size(), kManyRanges);
  EXPECT_TRUE(save(1).empty()) << "that file has been written over";
}

TEST_F(WrittenRangesTest, WhatChangedIsWrittenAndNothingElse) {
  save(0);
  save(0);
  for (const std::uint64_t place : {std::uint64_t{0}, std::uint64_t{31}, kRangeBytes - 1}) {
    change(5, place);
    EXPECT_EQ(save(saves - 1), all_but(5));
    EXPECT_EQ(save(saves - 1), all_but(5)) << "that file holds the state from before the change";
    EXPECT_EQ(save(saves - 1).size(), kManyRanges);
    EXPECT_EQ(save(saves - 1).size(), kManyRanges);
  }
}

TEST_F(WrittenRangesTest, EverySixteenthTimeAllIsWritten) {
  save(0);
  int full = 0;
  for (int i = 1; i < 33; ++i) {
    const bool is_full = save(saves).empty();
    full += is_full ? 1 : 0;
    EXPECT_EQ(is_full, i % 16 == 0) << i;
  }
  EXPECT_EQ(full, 2);
}

TEST_F(WrittenRangesTest, PartsOfARangeAndBytesAtAnotherPlaceAreWritten) {
  save(0);
  const auto ranges = history.begin(saves, saves + 1, false);
  EXPECT_FALSE(ranges->holds(bytes_of(3).first(kRangeBytes - 1), 3 * kRangeBytes));
  EXPECT_FALSE(ranges->holds(bytes_of(3), 3 * kRangeBytes + 8)) << "of two ranges";
  EXPECT_FALSE(ranges->holds(bytes_of(3), 4 * kRangeBytes));
  EXPECT_FALSE(ranges->holds(bytes_of(3), (kManyRanges + 4) * kRangeBytes)) << "nothing was written there";
  EXPECT_TRUE(ranges->holds(bytes_of(3), 3 * kRangeBytes));
}

TEST_F(WrittenRangesTest, RangesInAnyOrderAreFound) {
  auto ranges = history.begin(0, 1, false);
  for (const std::uint64_t range : {7U, 8U, 3U, 100U, 9U, 1U, 2U}) {
    EXPECT_FALSE(ranges->holds(bytes_of(range), range * kRangeBytes));
  }
  ranges = history.begin(1, 2, false);
  for (const std::uint64_t range : {1U, 2U, 3U, 7U, 8U, 9U, 100U}) {
    EXPECT_TRUE(ranges->holds(bytes_of(range), range * kRangeBytes)) << range;
  }
  for (const std::uint64_t range : {0U, 4U, 6U, 10U, 99U, 101U}) {
    EXPECT_FALSE(ranges->holds(bytes_of(range), range * kRangeBytes)) << range;
  }
}

TEST_F(WrittenRangesTest, WhereAllChangesOnlySomeAreComparedUntilThatEnds) {
  const auto change_all = [&] {
    for (std::uint64_t range = 0; range < kManyRanges; ++range) {
      change(range);
    }
  };
  save(0);
  EXPECT_EQ(history.begin(saves, saves + 1, false)->checks(), Checks::all);
  ++saves;
  save(0);
  change_all();
  EXPECT_TRUE(save(saves).empty());
  const auto some = history.begin(saves, saves + 1, false);
  EXPECT_EQ(some->checks(), Checks::some);
  ++saves;
  EXPECT_TRUE(save(0).empty());
  EXPECT_TRUE(save(saves).empty()) << "some are seen to be equal, and nothing is left out";
  const auto all = history.begin(saves, saves + 1, false);
  EXPECT_EQ(all->checks(), Checks::all);
  EXPECT_FALSE(all->leaves_out()) << "of the save before only some are known";
  ++saves;
  save(0);
  EXPECT_EQ(save(saves).size(), kManyRanges);
}

TEST_F(WrittenRangesTest, TheLastSaveIsNotRemembered) {
  EXPECT_EQ(history.begin(0, 1, true), nullptr);
  saves = 1;
  save(0);
  EXPECT_EQ(save(saves, true).size(), kManyRanges) << "but what is known serves it";
}

// Blocks between memory and file.

constexpr std::uint64_t kDataset = 100;  ///< where it begins in the file

/// Every element is its own position in the array.
PosixFile numbered_file(std::uint64_t elements) {
  std::vector<std::uint32_t> numbers(elements);
  for (std::uint32_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = i;
  }
  PosixFile file = PosixFile::create_in_memory();
  file.write_all(std::as_bytes(std::span(numbers)), kDataset);
  return file;
}

std::vector<std::uint32_t> read(const PosixFile& file, const Extents& shape, const Box& block, Xxh3Stream* digest) {
  std::vector<std::uint32_t> content(volume(block.extent));
  read_block(file, {kDataset, shape, sizeof(std::uint32_t)}, block, std::as_writable_bytes(std::span(content)), digest);
  return content;
}

std::vector<std::uint32_t> expected(const Extents& shape, const Box& block) {
  std::vector<std::uint32_t> numbers;
  for_each_run(block, shape, [&](std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<std::uint32_t>(first + i));
    }
  });
  return numbers;
}

/// Sparse and dense blocks, with runs of a few bytes to megabytes: read together, or one by one.
TEST(ReadBlock, BringsTheElementsOfAnyBoxAndTheirChecksum) {
  std::mt19937 random(3);  // NOLINT: repeatable
  for (const Extents& shape : {Extents{1'000'000}, Extents{900, 1000}, Extents{60, 50, 300}, Extents{7, 9, 30, 400}}) {
    const PosixFile file = numbered_file(volume(shape));
    for (int round = 0; round < 40; ++round) {
      Box block;
      for (const std::uint64_t length : shape) {
        block.offset.push_back(random() % length);
        const std::uint64_t rest = length - block.offset.back();
        block.extent.push_back(random() % 3 == 0 ? rest : 1 + random() % rest);
      }
      const auto wanted = expected(shape, block);
      Xxh3Stream digest;
      digest.reset();
      EXPECT_EQ(read(file, shape, block, &digest), wanted);
      EXPECT_EQ(digest.digest(), xxh3(std::as_bytes(std::span(wanted))));
      EXPECT_EQ(read(file, shape, block, nullptr), wanted);
    }
  }
}

TEST(ReadBlock, NothingBehindTheBlockIsNeeded) {
  const Extents shape{100, 50};
  const PosixFile file = numbered_file(volume(shape));
  const Box block{{3, 10}, {60, 20}};
  file.set_size(kDataset + (62 * 50 + 30) * sizeof(std::uint32_t));  // just behind the last element
  EXPECT_EQ(read(file, shape, block, nullptr), expected(shape, block));
  file.set_size(kDataset + (62 * 50 + 29) * sizeof(std::uint32_t));
  EXPECT_THROW(read(file, shape, block, nullptr), CorruptError);
}

// The copy that a background save writes.

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// An item of a one-dimensional array of ints.
WriteItem item_of(const std::vector<int>& values) {
  const Extents shape{values.size()};
  return {{0, shape, sizeof(int)},
          {reinterpret_cast<const std::byte*>(values.data()), whole(shape), dense_strides(shape, sizeof(int))}};
}

std::vector<int> content(const WriteItem& item) {
  std::vector<int> values(static_cast<std::size_t>(volume(item.source.box.extent)));
  std::memcpy(values.data(), item.source.data, values.size() * sizeof(int));
  return values;
}

TEST(StateCopy, HoldsTheValuesOfTheMomentItWasTaken) {
  std::vector<int> small = numbers(3, 1);
  std::vector<int> large = numbers(20'000, 7);
  std::vector<WriteItem> items{item_of(small), item_of(large), item_of(small)};
  StateCopy copy;
  copy.take(items);
  const std::vector<int> before = large;
  small.assign(3, 0);
  large.assign(20'000, 0);
  EXPECT_EQ(content(items[0]), numbers(3, 1));
  EXPECT_EQ(content(items[1]), before);
  EXPECT_EQ(content(items[2]), numbers(3, 1));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(items[1].source.data) % 4096, 0U) << "large parts begin at a page";
}

TEST(StateCopy, LaysStridedMemorySideBySide) {
  const std::vector<int> padded = numbers(12, 0);  // 3 rows of 4, of which the inner 2 belong to the state
  WriteItem item{
      {0, {3, 2}, sizeof(int)},
      {reinterpret_cast<const std::byte*>(padded.data() + 1), whole({3, 2}), {4 * sizeof(int), sizeof(int)}}};
  StateCopy copy;
  copy.take({&item, 1});
  EXPECT_EQ(content(item), (std::vector<int>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(item.source.strides_bytes, dense_strides({3, 2}, sizeof(int)));
}

TEST(StateCopy, UsesItsMemoryAgain) {
  const std::vector<int> values = numbers(100'000, 0);
  StateCopy copy;
  copy.take({});
  EXPECT_EQ(copy.capacity(), 0U) << "nothing needs nothing";
  std::vector<WriteItem> first{item_of(values)};
  copy.take(first);
  const std::size_t capacity = copy.capacity();
  std::vector<WriteItem> second{item_of(values)};
  copy.take(second);
  EXPECT_EQ(copy.capacity(), capacity);
  EXPECT_EQ(first[0].source.data, second[0].source.data);
}

TEST(StateCopy, ThrowsWhereThereIsNoMemoryAndChangesNothing) {
  WriteItem item{{0, {std::uint64_t{1} << 62}, 1}, {nullptr, whole({std::uint64_t{1} << 62}), {1}}};
  StateCopy copy;
  EXPECT_THROW(copy.take({&item, 1}), std::bad_alloc);
  EXPECT_EQ(item.source.data, nullptr);
}

// The rows of an item, in the order of the file.

constexpr std::size_t kElement = 4;
constexpr std::uint64_t kCursorDataset = 1000;  ///< where it begins in the file

/// Memory that holds a box with distances between its elements.
struct Memory {
  explicit Memory(const Box& box, std::mt19937& random) {
    Extents padded;
    for (const std::uint64_t length : box.extent) {
      padded.push_back(length + random() % 2);
    }
    const std::size_t gap = kElement * (1 + random() % 2);
    strides = dense_strides(padded, gap);
    bytes.resize(volume(padded) * gap + kElement);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random());
    }
  }
  std::vector<std::byte> bytes;
  Strides strides;
};

/// Takes memory of the host for that of a device.
class AsIfOnADevice final : public MemorySpace {
 public:
  [[nodiscard]] std::string name() const override { return "as if"; }
  [[nodiscard]] MemoryOwner owner_of(const void*) const override { return MemoryOwner::device; }
  void synchronize(const void*) override {}
  void copy_out(void* host, const void* device, const CopiedRows& rows) override {
    for (std::size_t row = 0; row < rows.rows; ++row) {
      std::memcpy(static_cast<std::byte*>(host) + row * rows.host_pitch,
                  static_cast<const std::byte*>(device) + row * rows.device_pitch, rows.row_bytes);
    }
  }
  void copy_in(void*, const void*, const CopiedRows&) override { FAIL(); }
  void wait(const void*) override {}
};

/// The whole dataset, with zeros outside of the item.
std::vector<std::byte> dense(const WriteItem& item) {
  std::vector<std::byte> all(volume(item.dataset.shape) * kElement);
  const Strides strides = dense_strides(item.dataset.shape, kElement);
  const std::ptrdiff_t first = displacement(whole(item.dataset.shape), strides, item.source.box.offset);
  copy_box(all.data() + first, strides, item.source.data, item.source.strides_bytes, item.source.box.extent, kElement);
  return all;
}

TEST(PiecesOfAnItem, BringEveryByteToItsPlaceInAscendingOrderWhateverTheCuts) {
  std::mt19937 random(7);  // NOLINT: repeatable
  for (int round = 0; round < 500; ++round) {
    const std::size_t dimensions = random() % 4;
    Extents shape, offset, extent;
    for (std::size_t d = 0; d < dimensions; ++d) {
      shape.push_back(1 + random() % 6);
      offset.push_back(random() % shape[d]);
      extent.push_back(random() % 4 == 0 ? shape[d] - offset[d] : 1 + random() % (shape[d] - offset[d]));
    }
    const Box box{offset, extent};
    const Memory memory(box, random);
    AsIfOnADevice space;
    const WriteItem item{{kCursorDataset, shape, kElement},
                         {memory.bytes.data(), box, memory.strides, round % 2 == 0 ? nullptr : &space}};
    std::vector<std::byte> taken(volume(shape) * kElement);
    const Region region = region_of(item);
    std::uint64_t taken_to = region.offset;
    std::uint64_t bytes = 0;
    BlockFeed feed;
    for (std::uint64_t begin = 0, end = 0; begin < kCursorDataset + taken.size(); begin = end) {
      end = begin + 1 + random() % (begin == 0 ? kCursorDataset : 30);
      for_each_piece(item, begin, end, feed, [&](std::uint64_t at, std::span<const std::byte> piece) {
        ASSERT_GE(at, std::max(begin, taken_to));
        ASSERT_FALSE(piece.empty());
        taken_to = at + piece.size();
        ASSERT_LE(taken_to, end);
        std::memcpy(taken.data() + (at - kCursorDataset), piece.data(), piece.size());
        bytes += piece.size();
      });
    }
    EXPECT_EQ(taken_to, region.offset + region.size);
    EXPECT_EQ(bytes, item.bytes());
    EXPECT_EQ(taken, dense(item));
  }
}

// The ways to write a file, as two tables have them.

TEST(Writers, BothTablesAreInTheOrderOfTheKinds) {
  for (std::size_t i = 0; i < kWriterRows.size(); ++i) {
    EXPECT_EQ(kWriterRows.at(i).kind, static_cast<WriterKind>(i));
    EXPECT_EQ(detail::kWriters.at(i).kind, static_cast<WriterKind>(i));
  }
}

}  // namespace
}  // namespace reprieve::storage
