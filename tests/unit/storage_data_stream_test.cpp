// SPDX-License-Identifier: BSD-3-Clause
// Whatever way the bytes take, and however they are cut, the file holds them at their places and nothing else changes.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <random>
#include <system_error>
#include <thread>

#include "storage/bytes/codec.hpp"
#include "storage/write/data_stream.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::storage {
namespace {

class DataStreamTest : public testing::TestWithParam<FileIo> {
 protected:
  DataStreamTest() {
    for (std::size_t i = 0; i < content_.size(); ++i) {
      content_[i] = static_cast<std::byte>(random_());
    }
    file_.allocate(kSize);
    file_.write_all(expected_, 0);
  }

  /// Writes a piece of the content to where it belongs.
  void write(DataStream& stream, std::uint64_t offset, std::size_t size) {
    const auto piece = std::span(content_).subspan(offset, size);
    stream.write(piece, offset);
    std::copy(piece.begin(), piece.end(), expected_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  void expect_written() const {
    Bytes found(kSize);
    file_.read_all(found, 0);
    EXPECT_TRUE(found == expected_);
  }

  static constexpr std::size_t kSize = (std::size_t{21} << 20U) + 123;
  std::mt19937 random_{5};
  Bytes content_ = Bytes(kSize);
  Bytes expected_ = Bytes(kSize, std::byte{0xee});
  // On a disk: the usual directory for temporary files may be in memory.
  test::TemporaryDirectory directory_{"/var/tmp"};
  PosixFile file_ = PosixFile::create(directory_.path() / "file");
};

TEST_P(DataStreamTest, OneLargePieceThatBeginsAndEndsAnywhere) {
  DataStream stream(file_, GetParam(), kSize);
  write(stream, 4099, kSize - 9001);
  stream.finish();
  expect_written();
}

TEST_P(DataStreamTest, PiecesThatFollowEachOther) {
  DataStream stream(file_, GetParam(), kSize);
  for (std::size_t offset = 100; offset < kSize;) {
    const std::size_t size = std::min<std::size_t>(kSize - offset, 1 + random_() % 700'000);
    write(stream, offset, size);
    offset += size;
  }
  stream.finish();
  expect_written();
}

TEST_P(DataStreamTest, ScatteredPiecesLeaveAloneWhatLiesBetween) {
  DataStream stream(file_, GetParam(), kSize);
  for (std::size_t offset = 7; offset + 2'000'000 < kSize; offset += 2'000'000) {
    write(stream, offset, 1 + random_() % 1'500'000);
  }
  stream.finish();
  expect_written();
}

TEST_P(DataStreamTest, MoreSmallPiecesBehindALargeOneThanAreKeptForTheEnd) {
  DataStream stream(file_, GetParam(), kSize);
  write(stream, 0, 5'000'000);
  std::size_t offset = 5'000'000;
  for (int i = 0; i < 40; ++i, offset += 70'000) {
    write(stream, offset + 1, 60'000);
  }
  write(stream, offset, 1'000'000);
  offset += 1'000'000;
  for (int i = 0; i < 700; ++i, offset += 5000) {
    write(stream, offset, 3);
  }
  stream.finish();
  expect_written();
}

TEST_P(DataStreamTest, PiecesInDescendingOrderAndOneOverAnother) {
  DataStream stream(file_, GetParam(), kSize);
  for (std::size_t count = 4; count > 0; --count) {
    write(stream, (count - 1) * 4'500'000, 4'500'000);
  }
  stream.finish();
  write(stream, 1'000'000, 9'000'000);
  stream.finish();
  expect_written();
}

TEST_P(DataStreamTest, TheMemoryMayChangeOnceItIsHandedOver) {
  Bytes reused(5'000'000);
  DataStream stream(file_, GetParam(), kSize);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t offset = i * reused.size();
    std::fill(reused.begin(), reused.end(), static_cast<std::byte>(i));
    stream.write(reused, offset);
    std::copy(reused.begin(), reused.end(), expected_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  stream.finish();
  expect_written();
}

TEST_P(DataStreamTest, AFileThatIsGivenUpHalfWayLeavesNothingUnderWay) {
  for (int i = 0; i < 5; ++i) {
    DataStream stream(file_, GetParam(), kSize);
    write(stream, 0, kSize / 2);
  }
  SUCCEED();
}

std::string name_of(const testing::TestParamInfo<FileIo>& way) {
  constexpr std::array kNames{"automatic", "page_cache", "direct"};
  return kNames.at(static_cast<std::size_t>(way.param));
}

INSTANTIATE_TEST_SUITE_P(EveryWay, DataStreamTest,
                         testing::Values(FileIo::automatic, FileIo::page_cache, FileIo::direct), name_of);

TEST(DataStream, SmallStatesAndThoseInMemoryGoThroughThePageCache) {
  const test::TemporaryDirectory directory;
  const PosixFile file = PosixFile::create(directory.path() / "file");
  EXPECT_FALSE(DataStream(file, FileIo::automatic, 1000).is_direct());
  EXPECT_FALSE(DataStream(file, FileIo::page_cache, 1U << 30U).is_direct());
  EXPECT_FALSE(DataStream(PosixFile::create_in_memory(), FileIo::automatic, 1U << 30U).is_direct());
}

/// A limit on the size of files stands for a disk that fails.
TEST(DataStream, AnErrorOfAWriteUnderWayIsReported) {
  const test::TemporaryDirectory directory;
  const PosixFile file = PosixFile::create(directory.path() / "file");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1U << 20U, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (const FileIo io : {FileIo::page_cache, FileIo::direct}) {
    const auto write = [&] {
      DataStream stream(file, io, 1U << 26U);
      const Bytes bytes(std::size_t{1} << 26U);
      stream.write(bytes, 0);
      stream.finish();
    };
    try {
      write();
      ADD_FAILURE() << "no error";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.code(), ErrorCode::no_space);
    }
  }
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
}

/// What a child that may start no thread makes of a file: 0 if all is written.
int write_without_threads(const PosixFile& file, std::span<const std::byte> content) {
  ::alarm(60);  // it must not wait for threads that there are not
  constexpr uid_t kNobody = 65534;
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0 || (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0)) {
    return 2;  // the limit does not bind root
  }
  try {
    std::thread([] {}).join();
    return 3;
  } catch (const std::system_error&) {
  }
  try {
    DataStream stream(file, FileIo::direct, content.size());
    stream.write(content, 0);
    stream.finish();
    return 0;
  } catch (const std::exception& error) {
    static_cast<void>(!::write(STDERR_FILENO, error.what(), std::strlen(error.what())));
    return 1;
  }
}

TEST(DataStream, WithoutAThreadToBeHadThisOneWrites) {
  const test::TemporaryDirectory directory{"/var/tmp"};
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  const Bytes content(std::size_t{5} << 20U, std::byte{7});
  const PosixFile file = PosixFile::create(directory.path() / "file");
  ASSERT_EQ(::chmod(file.path().c_str(), 0666), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::_exit(write_without_threads(file, content));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  Bytes found(content.size());
  file.read_all(found, 0);
  EXPECT_TRUE(found == content);
}

}  // namespace
}  // namespace reprieve::storage
