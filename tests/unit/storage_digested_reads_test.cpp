// SPDX-License-Identifier: BSD-3-Clause
// Reads with a checksum on the way.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "storage/bytes/posix_file.hpp"
#include "storage/bytes/readers.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::storage {
namespace {

constexpr std::size_t kLarge = std::size_t{3} << 20U;

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937 random(7);  // NOLINT: repeatable
  std::vector<std::byte> bytes(size);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

class DigestedReads : public testing::Test {
 protected:
  DigestedReads() { PosixFile::create(path).write_all(content, 0); }

  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "file";
  const std::vector<std::byte> content = random_bytes(2 * kLarge);
};

TEST_F(DigestedReads, BringWhatIsInTheFileAndItsChecksum) {
  const PosixFile file = PosixFile::open_to_read(path);
  for (const std::uint64_t offset : {0U, 1U, 4096U, 123'457U}) {
    std::vector<std::byte> read(kLarge);
    Xxh3Stream digest;
    file.read_and_digest(read, offset, &digest);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), content.begin() + static_cast<std::ptrdiff_t>(offset)));
    EXPECT_EQ(digest.digest(), xxh3(read));
    std::ranges::fill(read, std::byte{});
    file.read_and_digest(read, offset, nullptr);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), content.begin() + static_cast<std::ptrdiff_t>(offset)));
  }
}

TEST_F(DigestedReads, AFileThatEndsTooEarlyIsAnError) {
  const PosixFile file = PosixFile::open_to_read(path);
  std::vector<std::byte> read(kLarge);
  Xxh3Stream digest;
  for (const std::uint64_t missing : {1U, 4096U, 1'000'000U}) {
    EXPECT_THROW(file.read_and_digest(read, kLarge + missing, &digest), CorruptError);
    EXPECT_THROW(file.read_and_digest(read, kLarge + missing, nullptr), CorruptError);
  }
  EXPECT_FALSE(file.seems_cached(2 * kLarge, 1));
}

TEST_F(DigestedReads, StagedOnesBringTheSameToAnyPlace) {
  const PosixFile file = PosixFile::open_to_read(path);
  StagedReader reader;
  for (const std::uint64_t offset : {0U, 1U, 4096U, 123'457U}) {
    for (const std::size_t after : {0U, 1U, 16U, 63U}) {
      const auto expected = std::span(content).subspan(offset, kLarge - 7);
      std::vector<std::byte> memory(kLarge + 64, std::byte{0x55});
      Xxh3Stream digest;
      reader.read(file, std::span(memory).subspan(after, expected.size()), offset, &digest);
      EXPECT_TRUE(std::ranges::equal(std::span(memory).subspan(after, expected.size()), expected));
      EXPECT_EQ(digest.digest(), xxh3(expected));
      EXPECT_TRUE(
          std::ranges::all_of(std::span(memory).first(after), [](std::byte b) { return b == std::byte{0x55}; }));
      EXPECT_EQ(memory[after + expected.size()], std::byte{0x55});
      reader.read(file, std::span(memory).subspan(after, expected.size()), 0, nullptr);
      EXPECT_TRUE(std::ranges::equal(std::span(memory).subspan(after, expected.size()),
                                     std::span(content).first(expected.size())));
    }
  }
  std::vector<std::byte> more(kLarge);
  EXPECT_THROW(reader.read(file, more, kLarge + 1, nullptr), CorruptError);
}

TEST(StagedReads, AreForPlacesInTheMiddleOfALine) {
  alignas(64) const std::array<std::byte, 128> memory{};
  EXPECT_FALSE(StagedReader::is_faster(memory.data(), 4096));
  EXPECT_TRUE(StagedReader::is_faster(memory.data() + 16, 4096));
  EXPECT_FALSE(StagedReader::is_faster(memory.data() + 16, 4096 + 16));
}

TEST(StreamingCopy, CopiesWhatItShouldAndNothingElse) {
  const std::vector<std::byte> from = random_bytes(1000);
  for (const std::size_t after : {0U, 1U, 15U, 16U, 48U, 63U}) {
    for (const std::size_t size : {0U, 1U, 15U, 63U, 64U, 65U, 127U, 128U, 500U, 900U}) {
      std::vector<std::byte> to(1100, std::byte{0x55});
      streaming_copy(std::span(from).subspan(3, size), std::span(to).subspan(after, size));
      std::vector<std::byte> expected(1100, std::byte{0x55});
      std::copy_n(from.begin() + 3, size, expected.begin() + static_cast<std::ptrdiff_t>(after));
      EXPECT_EQ(to, expected) << after << ' ' << size;
    }
  }
}

}  // namespace
}  // namespace reprieve::storage
