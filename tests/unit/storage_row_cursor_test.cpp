// SPDX-License-Identifier: BSD-3-Clause
// The rows of an item, in the order of the file.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "storage/write/two_phase_writer.hpp"

namespace reprieve::storage {
namespace {

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
  void settle(const void*) override {}
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

TEST(RowCursor, TakesEveryByteToItsPlaceInAscendingOrderWhateverTheCuts) {
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
    std::uint64_t end = kCursorDataset;
    std::uint64_t bytes = 0;
    state::Staging staging;
    for (RowCursor cursor(item, staging); !cursor.done();) {
      ASSERT_GE(cursor.offset(), bytes == 0 ? kCursorDataset : end);
      const auto piece = cursor.piece(cursor.offset() + 1 + random() % 30);
      ASSERT_FALSE(piece.empty());
      std::memcpy(taken.data() + (cursor.offset() - kCursorDataset), piece.data(), piece.size());
      end = cursor.offset() + piece.size();
      bytes += piece.size();
      cursor.advance(piece.size());
    }
    EXPECT_EQ(bytes, item.bytes());
    EXPECT_EQ(taken, dense(item));
  }
}

TEST(RowCursor, AnEmptyBoxHasNoRows) {
  const WriteItem item{{0, {5, 6}, kElement}, {nullptr, {{2, 3}, {0, 2}}, {8, 4}}};
  state::Staging staging;
  EXPECT_TRUE(RowCursor(item, staging).done());
}

}  // namespace
}  // namespace reprieve::storage
