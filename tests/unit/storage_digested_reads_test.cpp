// SPDX-License-Identifier: BSD-3-Clause
// Reads with a checksum on the way.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "storage/bytes/posix_file.hpp"
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

}  // namespace
}  // namespace reprieve::storage
