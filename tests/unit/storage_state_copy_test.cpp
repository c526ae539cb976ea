// SPDX-License-Identifier: BSD-3-Clause
// The copy that a background save writes.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>

#include "storage/write/write_item.hpp"

namespace reprieve::storage {
namespace {

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
  std::vector<int> large = numbers(5000, 7);
  std::vector<WriteItem> items{item_of(small), item_of(large), item_of(small)};
  StateCopy copy;
  copy.take(items);
  const std::vector<int> before = large;
  small.assign(3, 0);
  large.assign(5000, 0);
  EXPECT_EQ(content(items[0]), numbers(3, 1));
  EXPECT_EQ(content(items[1]), before);
  EXPECT_EQ(content(items[2]), numbers(3, 1));
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
  std::vector<WriteItem> first{item_of(values)};
  copy.take(first);
  const std::size_t capacity = copy.capacity();
  std::vector<WriteItem> second{item_of(values)};
  copy.take(second);
  EXPECT_EQ(copy.capacity(), capacity);
  EXPECT_EQ(first[0].source.data, second[0].source.data);
}

TEST(StateCopy, LargePartsBeginAtAPage) {
  const std::vector<int> small = numbers(1, 0);
  const std::vector<int> large = numbers(2000, 0);
  std::vector<WriteItem> items{item_of(small), item_of(large)};
  StateCopy copy;
  copy.take(items);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(items[1].source.data) % 4096, 0U);
}

TEST(StateCopy, ThrowsWhereThereIsNoMemoryAndChangesNothing) {
  WriteItem item{{0, {std::uint64_t{1} << 62}, 1}, {nullptr, whole({std::uint64_t{1} << 62}), {1}}};
  StateCopy copy;
  EXPECT_THROW(copy.take({&item, 1}), std::bad_alloc);
  EXPECT_EQ(item.source.data, nullptr);
}

TEST(StateCopy, NothingNeedsNothing) {
  StateCopy copy;
  copy.take({});
  EXPECT_EQ(copy.capacity(), 0U);
}

}  // namespace
}  // namespace reprieve::storage
