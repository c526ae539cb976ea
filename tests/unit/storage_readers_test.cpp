// SPDX-License-Identifier: BSD-3-Clause
// Reading parts of a file some pieces ahead.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "core/threads.hpp"
#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/bytes/readers.hpp"
#include "support/boxes_and_bytes.hpp"
#include "support/small_files.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::storage {
namespace {

/// A file with known content.
class ReadsTest : public testing::Test {
 protected:
  explicit ReadsTest(std::uint64_t size) : content(random_bytes(size)) {
    const PosixFile created = PosixFile::create(path);
    created.write_all(content, 0);
    created.sync();
  }

  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "file";
  const std::vector<std::byte> content;
};

/// More than is read ahead at a time, and not whole pages.
constexpr std::uint64_t kFileBytes = (std::uint64_t{21} << 20U) + 12'345;

class ReadAhead : public ReadsTest {
 protected:
  ReadAhead() : ReadsTest(kFileBytes) {}

  /// What reads from the disk does not depend on what was in the page cache before.
  void drop_from_cache() const { static_cast<void>(::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED)); }

  /// Reads pieces of so many bytes, one after the other, and compares.
  void read_all_of(SequentialReader& from, std::uint64_t begin, std::uint64_t end, std::uint64_t piece) const {
    from.expect(begin, end);
    for (std::uint64_t offset = begin; offset < end; offset += piece) {
      const std::uint64_t size = std::min(piece, end - offset);
      const auto expected = std::span(content).subspan(offset, size);
      std::vector<std::byte> to(size);
      Xxh3Stream digest;
      ASSERT_TRUE(from.read(to, offset, &digest)) << offset;
      ASSERT_EQ(std::memcmp(to.data(), expected.data(), size), 0) << offset;
      ASSERT_EQ(digest.digest(), xxh3(expected)) << offset;
    }
  }

  const PosixFile file = PosixFile::open_to_read(path);
  SequentialReader reader{file};
};

TEST_F(ReadAhead, BringsAnyRangeInPiecesOfAnySizeColdAndWarm) {
  for (const bool cold : {true, false}) {
    for (const std::uint64_t piece : {std::uint64_t{500'001}, std::uint64_t{4} << 20U, kFileBytes}) {
      for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{4095}, std::uint64_t{7'000'001}}) {
        if (cold) {
          drop_from_cache();
        }
        const PosixFile opened = PosixFile::open_to_read(path);
        SequentialReader of_its_own(opened);
        read_all_of(of_its_own, begin, kFileBytes, piece);
        read_all_of(of_its_own, begin / 2, begin / 2 + 5'000'000, piece);  // back again
      }
    }
  }
}

TEST_F(ReadAhead, JumpsForwardsAndBackBringTheRightBytes) {
  drop_from_cache();
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
  reader.expect(0, kFileBytes);
  Xxh3Stream digest;
  ASSERT_TRUE(reader.digest(0, 9'000'000, digest));
  ASSERT_TRUE(reader.digest(9'000'000, kFileBytes - 9'000'000, digest));
  EXPECT_EQ(digest.digest(), xxh3(content));
}

TEST_F(ReadAhead, LeavesOutWhatIsNotAskedFor) {
  reader.expect(0, kFileBytes);
  Xxh3Stream digest;
  ASSERT_TRUE(reader.digest(1'000, 10, digest));
  ASSERT_TRUE(reader.digest(12'600'000, 10'000, digest));  // windows between are not needed
  Xxh3Stream expected;
  expected.update(std::span(content).subspan(1'000, 10));
  expected.update(std::span(content).subspan(12'600'000, 10'000));
  EXPECT_EQ(digest.digest(), expected.digest());
}

TEST_F(ReadAhead, WhatIsNotExpectedIsLeftToTheCaller) {
  std::vector<std::byte> to(1000);
  EXPECT_FALSE(reader.read(to, 0, nullptr));
  reader.expect(5000, 9000);
  EXPECT_FALSE(reader.read(to, 4999, nullptr));
  EXPECT_FALSE(reader.read(to, 8001, nullptr));
  EXPECT_TRUE(reader.read(to, 8000, nullptr));
}

TEST_F(ReadAhead, AFileThatEndsTooEarlyIsLeftToTheCaller) {
  PosixFile::open_to_write(path).set_size(10'000'001);
  reader.expect(0, kFileBytes);
  std::vector<std::byte> to(10'000'001);
  EXPECT_TRUE(reader.read(to, 0, nullptr));
  EXPECT_TRUE(std::equal(to.begin(), to.end(), content.begin()));
  EXPECT_FALSE(reader.read(to, 1, nullptr));
  EXPECT_FALSE(reader.read(to, 12'000'000, nullptr));
}

TEST_F(ReadAhead, AFailingReadIsLeftToTheCaller) {
  const PosixFile unreadable(path, core::Descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC)));
  SequentialReader failing(unreadable);
  drop_from_cache();
  failing.expect(0, kFileBytes);
  std::vector<std::byte> to(1000);
  // It can be opened for direct reads all the same where the file system has these; where not, nothing is read.
  if (failing.read(to, 0, nullptr)) {
    EXPECT_TRUE(unreadable.opened_again(O_DIRECT).is_open());
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

// Small parts of a file that are read together.

class SmallReads : public ReadsTest {
 protected:
  SmallReads() : ReadsTest(3'000'001) {}

  /// What is given must be right; whether something is given is returned.
  bool is_given(std::uint64_t offset, std::size_t size) {
    const auto bytes = reader.at(offset, size);
    if (!bytes.empty()) {
      EXPECT_EQ(bytes.size(), size);
      EXPECT_TRUE(std::ranges::equal(bytes, std::span(content).subspan(offset, size))) << offset;
    }
    return !bytes.empty();
  }

  const PosixFile file = PosixFile::open_to_read(path);
  WindowReader reader{file};
};

TEST_F(SmallReads, ComeFromAWindowFromTheSecondOn) {
  EXPECT_FALSE(is_given(100, 64));
  for (std::uint64_t offset = 164; offset + 64 < content.size(); offset += 200) {
    EXPECT_TRUE(is_given(offset, 64)) << offset;
  }
}

TEST_F(SmallReads, OfDifferentSizesContinueUpToTheEndOfTheFile) {
  std::uint64_t offset = 0;
  for (std::size_t size = 1; offset + size <= content.size(); offset += size, size = size * 5 % 65'521 + 1) {
    EXPECT_EQ(is_given(offset, size), offset > 0) << offset;
  }
  EXPECT_TRUE(is_given(content.size() - 1, 1));
  EXPECT_FALSE(is_given(content.size() - 1, 2)) << "it would end behind the file";
  EXPECT_FALSE(is_given(content.size() + 5, 1));
}

TEST_F(SmallReads, ThatDoNotContinueAreLeftToTheCaller) {
  EXPECT_FALSE(is_given(1'000'000, 10));
  EXPECT_FALSE(is_given(2'000'000, 10)) << "far ahead";
  EXPECT_FALSE(is_given(500'000, 10)) << "back";
  EXPECT_FALSE(is_given(500'010, WindowReader::kMostBytes + 1)) << "large";
  EXPECT_FALSE(is_given(500'010, 0));
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

// Reads with a checksum on the way.

constexpr std::size_t kLarge = std::size_t{3} << 20U;

class DigestedReads : public ReadsTest {
 protected:
  DigestedReads() : ReadsTest(2 * kLarge) {}
};

TEST_F(DigestedReads, BringWhatIsInTheFileAndItsChecksum) {
  const PosixFile file = PosixFile::open_to_read(path);
  for (const std::uint64_t offset : {0U, 1U, 4096U, 123'457U}) {
    std::vector<std::byte> read(kLarge);
    const auto expected = std::span(content).subspan(offset, kLarge);
    Xxh3Stream digest;
    file.read_and_digest(read, offset, &digest);
    EXPECT_TRUE(std::ranges::equal(read, expected));
    EXPECT_EQ(digest.digest(), xxh3(read));
    std::ranges::fill(read, std::byte{});
    file.read_and_digest(read, offset, nullptr);
    EXPECT_TRUE(std::ranges::equal(read, expected));
  }
}

TEST_F(DigestedReads, AFileThatEndsTooEarlyIsAnError) {
  const PosixFile file = PosixFile::open_to_read(path);
  std::vector<std::byte> read(kLarge);
  Xxh3Stream digest;
  for (const std::uint64_t missing : {1U, 4096U, 1'000'000U}) {
    EXPECT_THROW(file.read_and_digest(read, kLarge + missing, &digest), CorruptError);
    EXPECT_THROW(file.read_and_digest(read, kLarge + missing, nullptr), CorruptError);
    EXPECT_FALSE(FileReader(file).read(read, kLarge + missing, nullptr)) << "the caller reads, and reports the error";
  }
  EXPECT_FALSE(file.seems_cached(2 * kLarge, 1));
}

// The checked file descriptor, and the time limit on uninterruptible calls.

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class PosixFileTest : public testing::Test {
 protected:
  PosixFileTest() { std::ofstream(path).flush(); }

  static auto throws_no_space(const testing::Matcher<const char*>& text) {
    return testing::Throws<StorageError>(AllOf(testing::Property(&StorageError::code, ErrorCode::no_space),
                                               testing::Property(&StorageError::what, text)));
  }

  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "file";
};

TEST_F(PosixFileTest, WritesAndReadsAtOffsets) {
  PosixFile file = PosixFile::open_to_write(path);
  const auto content = random_bytes(100'000);
  file.write_all(content, 5000);
  EXPECT_EQ(file.size(), 105'000U);
  file.sync();
  file.close();
  std::vector<std::byte> read(1000);
  PosixFile::open_to_read(path).read_all(read, 6000);
  EXPECT_TRUE(std::equal(read.begin(), read.end(), content.begin() + 1000));
}

TEST_F(PosixFileTest, ReadingPastTheEndIsCorruption) {
  PosixFile::open_to_write(path).write_all(random_bytes(10), 0);
  std::vector<std::byte> read(11);
  EXPECT_THAT([&] { PosixFile::open_to_read(path).read_all(read, 0); },
              ThrowsMessage<CorruptError>(HasSubstr("ends at byte 10")));
}

TEST_F(PosixFileTest, AllocationSetsTheLengthAndKeepsTheContent) {
  const PosixFile file = PosixFile::open_to_write(path);
  file.write_all(random_bytes(10), 0);
  file.allocate(1 << 20);
  EXPECT_EQ(file.size(), 1U << 20U);
  std::vector<std::byte> read(20);
  file.read_all(read, 0);
  auto expected = random_bytes(10);
  expected.resize(20);
  EXPECT_EQ(read, expected);
}

TEST_F(PosixFileTest, AnAllocationThatDoesNotFitTellsTheNumbers) {
  constexpr std::size_t limit = 1 << 20;
  const test::SmallFiles full_disk(limit);
  EXPECT_THAT([&] { PosixFile::open_to_write(path).allocate(limit + 1); },
              throws_no_space(AllOf(HasSubstr(path.string()), HasSubstr("1048577 bytes needed"),
                                    HasSubstr("inodes available"), HasSubstr("File too large"))));
}

TEST_F(PosixFileTest, ErrorsCarryTheirCause) {
  EXPECT_EQ(storage_error("write", "x", ENOSPC).code(), ErrorCode::no_space);
  EXPECT_EQ(storage_error("write", "x", EDQUOT).code(), ErrorCode::no_space);
  EXPECT_EQ(storage_error("write", "x", EACCES).code(), ErrorCode::permission);
  EXPECT_EQ(storage_error("write", "x", EROFS).code(), ErrorCode::permission);
  EXPECT_EQ(storage_error("write", "x", EIO).code(), ErrorCode::io);
  EXPECT_STREQ(storage_error("write", "x", ENOSPC).what(), "cannot write x: No space left on device");
  EXPECT_THAT([&] { PosixFile::open_to_read(directory / "none"); },
              ThrowsMessage<StorageError>(AllOf(HasSubstr("none"), HasSubstr("No such file"))));
}

TEST_F(PosixFileTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo((directory / "fifo").c_str(), 0600), 0);
  EXPECT_THROW(PosixFile::open_to_read(directory / "fifo"), StorageError);  // and does not wait for a writer
  EXPECT_THROW(PosixFile::open_to_read(directory.path()), StorageError);
}

TEST_F(PosixFileTest, OnlyRegularFilesAreWritten) {
  ASSERT_EQ(mkfifo((directory / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink(path, directory / "link");
  for (const char* name : {"fifo", "link"}) {
    EXPECT_THROW(PosixFile::open_to_write(directory / name), StorageError) << name;  // and does not wait for a reader
    EXPECT_THROW(PosixFile::create(directory / name), StorageError) << name;
    EXPECT_THROW(PosixFile::open_direct(directory / name), StorageError) << name;
  }
}

TEST_F(PosixFileTest, AFailedWriteNamesTheFile) {
  const PosixFile file("/dev/full", core::Descriptor(::open("/dev/full", O_RDWR | O_CLOEXEC)));
  EXPECT_THAT([&] { file.write_all(random_bytes(10), 0); }, throws_no_space(HasSubstr("/dev/full")));
}

TEST(WatchdogDeathTest, AbortsAndNamesTheStage) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        core::Watchdog watchdog("rank 3 on node7", std::chrono::milliseconds(50));
        watchdog.enter("closing the file");
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      testing::KilledBySignal(SIGABRT), "rank 3 on node7.*closing the file.*50 ms");
}

TEST(Watchdog, LetsStagesTakeTheirTimeEach) {
  core::Watchdog watchdog("rank 0", std::chrono::seconds(4));
  for (int stage = 0; stage < 5; ++stage) {
    watchdog.enter("stage");
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace
}  // namespace reprieve::storage
