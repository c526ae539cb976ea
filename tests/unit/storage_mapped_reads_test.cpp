// Large pieces of files that are read through a mapping, and copies past the processor's caches.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>
#include <vector>

#include "storage/bytes/guarded_mapping.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/bytes/streamed_copy.hpp"
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

TEST(StreamedCopy, CopiesAnySizeFromAndToAnyPlaceWithItsChecksum) {
  const auto source = random_bytes(400'000);
  for (const std::size_t size : {0U, 1U, 63U, 16'383U, 16'384U, 16'385U, 32'768U, 100'001U, 300'000U}) {
    for (const std::size_t shift : {0U, 1U, 16U, 31U, 64U, 4095U}) {
      const auto from = std::span(source).subspan(3 * shift, size);
      std::vector<std::byte> expected(size + shift + 100, std::byte{9});
      std::ranges::copy(from, std::span(expected).subspan(shift).begin());
      Xxh3Stream digest;
      for (Xxh3Stream* wanted : {static_cast<Xxh3Stream*>(nullptr), &digest}) {
        std::vector<std::byte> to(expected.size(), std::byte{9});
        copy_streamed(std::span(to).subspan(shift, size), from.data(), wanted);
        EXPECT_EQ(to, expected) << size << ' ' << shift;
      }
      EXPECT_EQ(digest.digest(), xxh3(from)) << size << ' ' << shift;
    }
  }
}

class MappedReads : public testing::Test {
 protected:
  MappedReads() { PosixFile::create(path).write_all(content, 0); }

  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "file";
  const std::vector<std::byte> content = random_bytes(2 * kLarge);
};

TEST_F(MappedReads, BringWhatIsInTheFileAndItsChecksum) {
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

TEST_F(MappedReads, AFileThatEndsTooEarlyIsAnError) {
  const PosixFile file = PosixFile::open_to_read(path);
  std::vector<std::byte> read(kLarge);
  Xxh3Stream digest;
  for (const std::uint64_t missing : {1U, 4096U, 1'000'000U}) {
    EXPECT_THROW(file.read_and_digest(read, kLarge + missing, &digest), CorruptError);
    EXPECT_THROW(file.read_and_digest(read, kLarge + missing, nullptr), CorruptError);
  }
  EXPECT_FALSE(file.seems_cached(2 * kLarge, 1));
}

/// What another process may do at any time.
TEST_F(MappedReads, AFileThatIsCutOffWhileItIsMappedBringsZerosAndSaysSo) {
  const PosixFile file = PosixFile::open_to_write(path);
  const GuardedMapping mapping(file.descriptor(), 5, kLarge);
  ASSERT_NE(mapping.data(), nullptr);
  EXPECT_TRUE(std::equal(content.begin() + 5, content.begin() + 5 + kLarge, mapping.data()));
  EXPECT_TRUE(mapping.is_whole());
  file.set_size(100'000);
  EXPECT_EQ(mapping.data()[kLarge - 1], std::byte{});
  EXPECT_FALSE(mapping.is_whole());
}

TEST_F(MappedReads, AThreadThatBlocksTheSignalSurvivesToo) {
  sigset_t bus_error;
  sigemptyset(&bus_error);
  sigaddset(&bus_error, SIGBUS);
  sigset_t before;
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &bus_error, &before), 0);
  {
    const PosixFile file = PosixFile::open_to_write(path);
    const GuardedMapping mapping(file.descriptor(), 0, kLarge);
    ASSERT_NE(mapping.data(), nullptr);
    file.set_size(0);
    EXPECT_EQ(mapping.data()[0], std::byte{});
    EXPECT_FALSE(mapping.is_whole());
  }
  sigset_t after;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
  EXPECT_EQ(sigismember(&after, SIGBUS), 1);
}

TEST_F(MappedReads, TheHandlerBeforeIsThereAgainAfterwards) {
  const auto handler = [](int /*signal*/) {};
  const auto before = std::signal(SIGBUS, handler);
  {
    const PosixFile file = PosixFile::open_to_read(path);
    const GuardedMapping one(file.descriptor(), 0, kLarge);
    const GuardedMapping two(file.descriptor(), kLarge, kLarge);
    EXPECT_NE(one.data(), nullptr);
    EXPECT_NE(two.data(), nullptr);
  }
  EXPECT_EQ(std::signal(SIGBUS, before), static_cast<sighandler_t>(handler));
}

/// Reads another mapping, of a file that was cut off, while a guarded one lives.
[[noreturn]] void touch_what_is_not_guarded(const std::filesystem::path& path) {
  const PosixFile file = PosixFile::open_to_write(path);
  const auto* own =
      static_cast<const volatile char*>(::mmap(nullptr, kLarge, PROT_READ, MAP_SHARED, file.descriptor(), 0));
  const GuardedMapping mapping(file.descriptor(), 0, kLarge);
  file.set_size(0);
  static_cast<void>(own[0]);
  std::_Exit(0);
}

using MappedReadsDeathTest = MappedReads;

TEST_F(MappedReadsDeathTest, OtherBusErrorsComeToWhomTheyWouldComeWithout) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        touch_what_is_not_guarded(path);
      },
      testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int /*signal*/) { std::_Exit(7); });
        touch_what_is_not_guarded(path);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace reprieve::storage
