// SPDX-License-Identifier: BSD-3-Clause
// Reading parts of a file some pieces ahead.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "storage/bytes/posix_file.hpp"
#include "storage/bytes/readers.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::storage {
namespace {

/// More than is read ahead at a time, and not whole pages.
constexpr std::uint64_t kFileBytes = (std::uint64_t{21} << 20U) + 12'345;

class ReadAhead : public testing::Test {
 protected:
  ReadAhead() {
    std::mt19937_64 random(11);  // NOLINT: repeatable
    for (std::size_t i = 0; i + sizeof(std::uint64_t) <= content.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(&content[i], &word, sizeof(word));
    }
    const PosixFile created = PosixFile::create(path);
    created.write_all(content, 0);
    created.sync();
  }

  /// What reads from the disk does not depend on what was in the page cache before.
  void drop_from_cache() const {
    const PosixFile opened = PosixFile::open_to_read(path);
    static_cast<void>(::posix_fadvise(opened.descriptor(), 0, 0, POSIX_FADV_DONTNEED));
  }

  /// Reads pieces of so many bytes, one after the other, and compares.
  void read_all_of(SequentialReader& reader, std::uint64_t begin, std::uint64_t end, std::uint64_t piece) const {
    reader.expect(begin, end);
    for (std::uint64_t offset = begin; offset < end; offset += piece) {
      const std::uint64_t size = std::min(piece, end - offset);
      const auto expected = std::span(content).subspan(offset, size);
      std::vector<std::byte> to(size);
      Xxh3Stream digest;
      ASSERT_TRUE(reader.read(to, offset, &digest)) << offset;
      ASSERT_EQ(std::memcmp(to.data(), expected.data(), size), 0) << offset;
      ASSERT_EQ(digest.digest(), xxh3(expected)) << offset;
    }
  }

  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "file";
  std::vector<std::byte> content = std::vector<std::byte>(kFileBytes);
};

TEST_F(ReadAhead, BringsAnyRangeInPiecesOfAnySizeColdAndWarm) {
  for (const bool cold : {true, false}) {
    for (const std::uint64_t piece : {std::uint64_t{500'001}, std::uint64_t{4} << 20U, kFileBytes}) {
      for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{4095}, std::uint64_t{7'000'001}}) {
        if (cold) {
          drop_from_cache();
        }
        const PosixFile file = PosixFile::open_to_read(path);
        SequentialReader reader(file);
        read_all_of(reader, begin, kFileBytes, piece);
        read_all_of(reader, begin / 2, begin / 2 + 5'000'000, piece);  // back again
      }
    }
  }
}

TEST_F(ReadAhead, JumpsForwardsAndBackBringTheRightBytes) {
  drop_from_cache();
  const PosixFile file = PosixFile::open_to_read(path);
  SequentialReader reader(file);
  std::mt19937_64 random(12);  // NOLINT: repeatable
  int works = 0;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t begin = random() % kFileBytes;
    const std::uint64_t end = begin + random() % (kFileBytes - begin) + 1;
    if (i % 3 != 1) {  // else what was expected before holds
      reader.expect(random() % 2 == 0 ? 0 : begin, kFileBytes);
    }
    std::vector<std::byte> to(std::min<std::uint64_t>(end - begin, 3'000'000));
    if (reader.read(to, begin, nullptr)) {  // else it is left to the caller
      ++works;
      ASSERT_EQ(std::memcmp(to.data(), content.data() + begin, to.size()), 0) << i;
    }
  }
  EXPECT_GT(works, 100);
}

TEST_F(ReadAhead, DigestsWithoutACopy) {
  drop_from_cache();
  const PosixFile file = PosixFile::open_to_read(path);
  SequentialReader reader(file);
  reader.expect(0, kFileBytes);
  Xxh3Stream digest;
  ASSERT_TRUE(reader.digest(0, 9'000'000, digest));
  ASSERT_TRUE(reader.digest(9'000'000, kFileBytes - 9'000'000, digest));
  EXPECT_EQ(digest.digest(), xxh3(content));
}

TEST_F(ReadAhead, LeavesOutWhatIsNotAskedFor) {
  const PosixFile file = PosixFile::open_to_read(path);
  SequentialReader reader(file);
  reader.expect(0, kFileBytes);
  Xxh3Stream digest;
  ASSERT_TRUE(reader.digest(1'000, 10, digest));
  ASSERT_TRUE(reader.digest(12'600'000, 10'000, digest));  // windows between are not needed
  EXPECT_EQ(digest.digest(), [&] {
    Xxh3Stream expected;
    expected.update(std::span(content).subspan(1'000, 10));
    expected.update(std::span(content).subspan(12'600'000, 10'000));
    return expected.digest();
  }());
}

TEST_F(ReadAhead, WhatIsNotExpectedIsLeftToTheCaller) {
  const PosixFile file = PosixFile::open_to_read(path);
  SequentialReader reader(file);
  std::vector<std::byte> to(1000);
  EXPECT_FALSE(reader.read(to, 0, nullptr));
  reader.expect(5000, 9000);
  EXPECT_FALSE(reader.read(to, 4999, nullptr));
  EXPECT_FALSE(reader.read(to, 8001, nullptr));
  EXPECT_TRUE(reader.read(to, 8000, nullptr));
}

TEST_F(ReadAhead, AFileThatEndsTooEarlyIsLeftToTheCaller) {
  PosixFile::open_to_write(path).set_size(10'000'001);
  const PosixFile file = PosixFile::open_to_read(path);
  SequentialReader reader(file);
  reader.expect(0, kFileBytes);
  std::vector<std::byte> to(10'000'001);
  EXPECT_TRUE(reader.read(to, 0, nullptr));
  EXPECT_TRUE(std::equal(to.begin(), to.end(), content.begin()));
  EXPECT_FALSE(reader.read(to, 1, nullptr));
  EXPECT_FALSE(reader.read(to, 12'000'000, nullptr));
}

TEST_F(ReadAhead, AFailingReadIsLeftToTheCaller) {
  const PosixFile file(path, core::Descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC)));  // it can not be read
  SequentialReader reader(file);
  drop_from_cache();
  reader.expect(0, kFileBytes);
  std::vector<std::byte> to(1000);
  // It can be opened for direct reads all the same where the file system has these; where not, nothing is read.
  if (reader.read(to, 0, nullptr)) {
    EXPECT_TRUE(file.opened_again(O_DIRECT).is_open());
    EXPECT_TRUE(std::ranges::equal(to, std::span(content).first(1000)));
  }
}

TEST(ReadAheadInMemory, WorksWithoutDirectReads) {
  const std::vector<std::byte> content(6'000'000, std::byte{7});
  const PosixFile file = PosixFile::create_in_memory();
  file.write_all(content, 0);
  SequentialReader reader(file);
  reader.expect(0, content.size());
  std::vector<std::byte> to(content.size());
  EXPECT_TRUE(reader.read(to, 0, nullptr));
  EXPECT_EQ(to, content);
}

}  // namespace
}  // namespace reprieve::storage
