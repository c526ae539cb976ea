// SPDX-License-Identifier: BSD-3-Clause
// Chunks that are compressed: which arrays get them, what is compressed at all, and bytes that are no such chunk.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "storage/bytes/compression.hpp"
#include "storage/format/dataset.hpp"

namespace reprieve::storage {
namespace {

constexpr std::size_t kEightBytes = sizeof(double);
constexpr std::size_t kElements = 1 << 17;  // 1 MiB

std::vector<double> smooth() {
  std::vector<double> values(kElements);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(i / 16);
  }
  return values;
}

std::vector<double> noise() {
  std::vector<double> values(kElements);
  std::mt19937_64 random(7);
  std::ranges::generate(values, [&] { return std::bit_cast<double>(random()); });
  return values;
}

class CompressorTest : public ::testing::TestWithParam<Compression> {
 protected:
  void SetUp() override {
    if (!can_compress()) {
      GTEST_SKIP() << "built without Blosc";
    }
  }
  Compressor compressor_{GetParam()};
  std::vector<double> smooth_ = smooth();
  std::vector<double> noise_ = noise();
  std::vector<double> read_ = std::vector<double>(kElements);
};

TEST_P(CompressorTest, GivesBackWhatItTook) {
  const auto [size, padded] = compressor_.compress(std::as_bytes(std::span(smooth_)), kEightBytes);
  ASSERT_GT(size, 0U);
  EXPECT_LT(size, kElements * kEightBytes / 2);
  EXPECT_EQ(padded.size() % kPageBytes, 0U);
  EXPECT_LT(padded.size() - size, kPageBytes);
  EXPECT_TRUE(std::ranges::all_of(padded.subspan(size), [](std::byte byte) { return byte == std::byte{}; }));
  EXPECT_TRUE(decompress(padded.first(size), std::as_writable_bytes(std::span(read_))));
  EXPECT_EQ(read_, smooth_);
}

TEST_P(CompressorTest, LeavesNoiseAndTriesLessOftenAfterIt) {
  const auto tried = [&](const std::vector<double>& values) {
    return compressor_.compress(std::as_bytes(std::span(values)), kEightBytes).size > 0;
  };
  EXPECT_FALSE(tried(noise_));
  EXPECT_FALSE(tried(smooth_)) << "not tried";
  EXPECT_TRUE(tried(smooth_));
  EXPECT_TRUE(tried(smooth_)) << "as if nothing had been";
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(tried(noise_));
  }
  int until = 1;
  while (!tried(smooth_)) {
    ++until;
  }
  EXPECT_LE(until, 17);
}

TEST_P(CompressorTest, RefusesWhatIsNoSuchChunk) {
  const auto [size, padded] = compressor_.compress(std::as_bytes(std::span(smooth_)), kEightBytes);
  const auto into = std::as_writable_bytes(std::span(read_));
  EXPECT_FALSE(decompress(padded.first(size - 1), into)) << "cut off";
  EXPECT_FALSE(decompress(padded.first(size), into.first(into.size() - kEightBytes))) << "of another size";
  EXPECT_FALSE(decompress({}, into));
  EXPECT_FALSE(decompress(std::as_bytes(std::span(noise_)), into));
  std::vector<std::byte> flipped(padded.begin(), padded.begin() + static_cast<std::ptrdiff_t>(size));
  for (std::size_t i = 0; i < flipped.size(); i += flipped.size() / 200 + 1) {  // no crash, whatever it says
    flipped[i] ^= std::byte{0x40};
    static_cast<void>(decompress(flipped, into));
    flipped[i] ^= std::byte{0x40};
  }
}

INSTANTIATE_TEST_SUITE_P(By, CompressorTest, ::testing::Values(Compression::lz4, Compression::zstd),
                         [](const auto& tested) { return tested.param == Compression::lz4 ? "lz4" : "zstd"; });

/// Ranks that cut an array along its first dimension.
std::vector<Box> rows(const Extents& shape, std::uint64_t ranks) {
  std::vector<Box> boxes;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    Box box = whole(shape);
    box.offset[0] = shape[0] * rank / ranks;
    box.extent[0] = shape[0] * (rank + 1) / ranks - box.offset[0];
    boxes.push_back(box);
  }
  return boxes;
}

TEST(CompressedChunks, AreAboutAMebibyteInWholePages) {
  for (const auto& shape : {Extents{1 << 24}, Extents{10'000'019}, Extents{4096, 4096}, Extents{2000, 100, 100}}) {
    for (const std::uint64_t ranks : {1U, 2U, 3U, 7U}) {
      const Extents chunk = choose_compressed_chunk(shape, kEightBytes, rows(shape, ranks));
      ASSERT_EQ(chunk.size(), shape.size()) << shape[0];
      const std::uint64_t bytes = volume(chunk) * kEightBytes;
      EXPECT_EQ(bytes % kPageBytes, 0U);
      EXPECT_GE(bytes, 1U << 18U);
      EXPECT_LE(bytes, 3U << 20U);
    }
  }
  const Extents columns{512, 512, 512};
  const std::vector<Box> halves{{{0, 0, 0}, {512, 512, 256}}, {{0, 0, 256}, {512, 512, 256}}};
  EXPECT_EQ(choose_compressed_chunk(columns, kEightBytes, halves), (Extents{1, 512, 256}));
}

TEST(CompressedChunks, AreNotMadeWhereTheyWouldBeSmallOrOdd) {
  const auto chunk_of = [](const Extents& shape, std::uint64_t ranks) {
    return choose_compressed_chunk(shape, kEightBytes, rows(shape, ranks));
  };
  EXPECT_TRUE(chunk_of({1 << 18}, 1).empty()) << "2 MiB";
  EXPECT_TRUE(chunk_of({1 << 19}, 64).empty()) << "64 KiB of each rank";
  EXPECT_TRUE(chunk_of({101, 101, 101}, 1).empty()) << "no whole pages";
  EXPECT_TRUE(chunk_of({}, 0).empty());
  EXPECT_TRUE(choose_compressed_chunk({1 << 24}, kEightBytes, {}).empty()) << "nobody holds anything";
}

}  // namespace
}  // namespace reprieve::storage
