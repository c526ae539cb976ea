// SPDX-License-Identifier: BSD-3-Clause
// The checked file descriptor, the checksum, and the time limit on uninterruptible calls.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/write/mpio_writer.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7);
  }
  return bytes;
}

class PosixFileTest : public testing::Test {
 protected:
  PosixFileTest() { std::ofstream(path).flush(); }

  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "file";
};

TEST_F(PosixFileTest, WritesAndReadsAtOffsets) {
  PosixFile file = PosixFile::open_to_write(path);
  const auto content = pattern(100'000);
  file.write_all(content, 5000);
  EXPECT_EQ(file.size(), 105'000U);
  file.sync();
  file.close();
  std::vector<std::byte> read(1000);
  PosixFile::open_to_read(path).read_all(read, 6000);
  EXPECT_TRUE(std::equal(read.begin(), read.end(), content.begin() + 1000));
}

TEST_F(PosixFileTest, ReadingPastTheEndIsCorruption) {
  PosixFile::open_to_write(path).write_all(pattern(10), 0);
  std::vector<std::byte> read(11);
  EXPECT_THAT([&] { PosixFile::open_to_read(path).read_all(read, 0); },
              ThrowsMessage<CorruptError>(HasSubstr("ends at byte 10")));
}

TEST_F(PosixFileTest, AllocationSetsTheLengthAndKeepsTheContent) {
  const PosixFile file = PosixFile::open_to_write(path);
  file.write_all(pattern(10), 0);
  file.allocate(1 << 20);
  EXPECT_EQ(file.size(), 1U << 20U);
  std::vector<std::byte> read(20);
  file.read_all(read, 0);
  auto expected = pattern(10);
  expected.resize(20);
  EXPECT_EQ(read, expected);
}

TEST_F(PosixFileTest, AnAllocationThatDoesNotFitTellsTheNumbers) {
  const rlim_t limit = 1 << 20;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{limit, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  try {
    PosixFile::open_to_write(path).allocate(limit + 1);
    ADD_FAILURE() << "no error";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_space);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path.string()), HasSubstr("1048577 bytes needed"),
                                    HasSubstr("inodes available"), HasSubstr("File too large")));
  }
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
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
  const PosixFile file = PosixFile("/dev/full", core::Descriptor(::open("/dev/full", O_RDWR | O_CLOEXEC)));
  try {
    file.write_all(pattern(10), 0);
    ADD_FAILURE() << "no error";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_space);
    EXPECT_THAT(error.what(), HasSubstr("/dev/full"));
  }
}

TEST(Checksum, OfPiecesIsThatOfTheWhole) {
  const auto content = pattern(10'000);
  Xxh3Stream stream;
  stream.update(std::span(content).first(1234));
  stream.update(std::span(content).subspan(1234));
  EXPECT_EQ(stream.digest(), xxh3(content));
}

TEST(Checksum, HasTheValuesOfXxh3) {
  EXPECT_EQ(xxh3({}), 0x2D06800538D394C2ULL);
  auto content = pattern(10'000);
  const std::uint64_t valid = xxh3(content);
  content[5000] ^= std::byte{1};
  EXPECT_NE(xxh3(content), valid);
}

TEST(WatchdogDeathTest, AbortsAndNamesTheStage) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        Watchdog watchdog("rank 3 on node7", std::chrono::milliseconds(50));
        watchdog.enter("closing the file");
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      testing::KilledBySignal(SIGABRT), "rank 3 on node7.*closing the file.*50 ms");
}

TEST(Watchdog, LetsStagesTakeTheirTimeEach) {
  Watchdog watchdog("rank 0", std::chrono::seconds(4));
  for (int stage = 0; stage < 5; ++stage) {
    watchdog.enter("stage");
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace
}  // namespace reprieve::storage
