// SPDX-License-Identifier: BSD-3-Clause
// Small parts of a file that are read together.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "storage/bytes/readers.hpp"
#include "storage/format/blocks.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::storage {
namespace {

class SmallReads : public testing::Test {
 protected:
  SmallReads() {
    for (std::size_t i = 0; i < content.size(); ++i) {
      content[i] = static_cast<std::byte>(i * 7 + i / 256);
    }
    PosixFile::create(path).write_all(content, 0);
  }

  /// What is given must be right; whether something is given is returned.
  bool is_given(WindowReader& reader, std::uint64_t offset, std::size_t size) const {
    const auto bytes = reader.at(offset, size);
    if (!bytes.empty()) {
      EXPECT_EQ(bytes.size(), size);
      EXPECT_TRUE(std::ranges::equal(bytes, std::span(content).subspan(offset, size))) << offset;
    }
    return !bytes.empty();
  }

  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "file";
  std::vector<std::byte> content = std::vector<std::byte>(3'000'001);
};

TEST_F(SmallReads, ComeFromAWindowFromTheSecondOn) {
  const PosixFile file = PosixFile::open_to_read(path);
  WindowReader reader(file);
  EXPECT_FALSE(is_given(reader, 100, 64));
  for (std::uint64_t offset = 164; offset + 64 < content.size(); offset += 200) {
    EXPECT_TRUE(is_given(reader, offset, 64)) << offset;
  }
}

TEST_F(SmallReads, OfDifferentSizesContinueUpToTheEndOfTheFile) {
  const PosixFile file = PosixFile::open_to_read(path);
  WindowReader reader(file);
  std::uint64_t offset = 0;
  for (std::size_t size = 1; offset + size <= content.size(); offset += size, size = size * 5 % 65'521 + 1) {
    EXPECT_EQ(is_given(reader, offset, size), offset > 0) << offset;
  }
  EXPECT_TRUE(is_given(reader, content.size() - 1, 1));
  EXPECT_FALSE(is_given(reader, content.size() - 1, 2)) << "it would end behind the file";
  EXPECT_FALSE(is_given(reader, content.size() + 5, 1));
}

TEST_F(SmallReads, ThatDoNotContinueAreLeftToTheCaller) {
  const PosixFile file = PosixFile::open_to_read(path);
  WindowReader reader(file);
  EXPECT_FALSE(is_given(reader, 1'000'000, 10));
  EXPECT_FALSE(is_given(reader, 2'000'000, 10)) << "far ahead";
  EXPECT_FALSE(is_given(reader, 500'000, 10)) << "back";
  EXPECT_FALSE(is_given(reader, 500'010, WindowReader::kMostBytes + 1)) << "large";
  EXPECT_FALSE(is_given(reader, 500'010, 0));
}

TEST(DensePosition, IsThatOfBoxesInOnePiece) {
  const std::vector<std::uint64_t> shape{4, 5, 6};
  const auto position = [&](std::vector<std::uint64_t> offset, std::vector<std::uint64_t> extent) {
    return dense_position(shape, offset, extent, 8);
  };
  EXPECT_EQ(position({0, 0, 0}, {4, 5, 6}), 0U);
  EXPECT_EQ(position({1, 0, 0}, {2, 5, 6}), 8U * 30);
  EXPECT_EQ(position({1, 2, 0}, {1, 2, 6}), 8U * (30 + 12));
  EXPECT_EQ(position({3, 4, 1}, {1, 1, 5}), 8U * (90 + 24 + 1));
  EXPECT_FALSE(position({0, 0, 0}, {2, 4, 6}));
  EXPECT_FALSE(position({0, 0, 0}, {1, 2, 5}));
  EXPECT_FALSE(position({0, 0, 0}, {2, 1, 1}));
  EXPECT_FALSE(position({0, 0, 0}, {4, 0, 6})) << "a box without elements lies nowhere";
  EXPECT_EQ(dense_position({}, {}, {}, 8), 0U);
}

}  // namespace
}  // namespace reprieve::storage
