// SPDX-License-Identifier: BSD-3-Clause
// Blocks between memory and file.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "storage/write/write_item.hpp"

namespace reprieve::storage {
namespace {

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

}  // namespace
}  // namespace reprieve::storage
