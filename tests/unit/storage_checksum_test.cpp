// SPDX-License-Identifier: BSD-3-Clause
// The checksum, the copy beside it, and what they leave behind in the processor.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "storage/bytes/checksum.hpp"
#include "support/boxes_and_bytes.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace reprieve::storage {
namespace {

TEST(Checksum, HasTheValuesOfXxh3) {
  EXPECT_EQ(xxh3({}), 0x2D06800538D394C2ULL);
  auto content = random_bytes(10'000);
  const std::uint64_t valid = xxh3(content);
  content[5000] ^= std::byte{1};
  EXPECT_NE(xxh3(content), valid);
}

// What the stream computes by itself is compared with the library, which computes what lies side by side.

class EveryKernel : public ::testing::TestWithParam<Xxh3Kernel> {
 protected:
  void SetUp() override {
    if (GetParam() > fastest_xxh3_kernel()) {
      GTEST_SKIP() << "this processor has no such instructions";
    }
  }

  const std::vector<std::byte> bytes_ = random_bytes(70'000);
};

TEST_P(EveryKernel, HasTheSumsOfTheLibraryForAllLengthsAndPlaces) {
  Xxh3Stream stream(GetParam());
  for (std::size_t size = 0; size < 5000; size += size < 1200 ? 1 : 37) {
    for (const std::size_t at : {0U, 1U, 8U, 31U}) {
      const auto part = std::span(bytes_).subspan(at, size);
      stream.reset();
      stream.update(part);
      ASSERT_EQ(stream.digest(), xxh3(part)) << size << " bytes at " << at;
    }
  }
}

TEST_P(EveryKernel, HasTheSumsOfTheLibraryForPiecesOfAllSizes) {
  std::mt19937 random(3);  // NOLINT: repeatable
  for (int i = 0; i < 2000; ++i) {
    const auto all = std::span(bytes_).first(random() % (i % 2 == 0 ? 1500 : bytes_.size()));
    const std::size_t most = i % 3 == 0 ? 70 : 5000;
    Xxh3Stream stream(GetParam());
    for (auto rest = all; !rest.empty();) {
      const auto piece = rest.first(std::min<std::size_t>(rest.size(), random() % most));
      stream.update(piece);
      rest = rest.subspan(piece.size());
    }
    ASSERT_EQ(stream.digest(), xxh3(all)) << all.size() << " bytes, run " << i;
    EXPECT_EQ(stream.digest(), xxh3(all)) << "asked for once more";
  }
}

TEST_P(EveryKernel, CopiesWhatItAddsToAnyPlaceAndNothingElse) {
  std::mt19937 random(5);  // NOLINT: repeatable
  for (const std::size_t at : {0U, 3U, 64U}) {
    for (const std::size_t after : {0U, 1U, 15U, 16U, 48U, 63U}) {
      for (const std::size_t size : {0U, 1U, 63U, 64U, 255U, 256U, 257U, 320U, 321U, 1000U, 5000U, 60'001U}) {
        const auto from = std::span(bytes_).subspan(at, size);
        std::vector<std::byte> expected(size + 200, std::byte{0x55});
        std::vector<std::byte> copied = expected;
        std::ranges::copy(from, expected.begin() + static_cast<std::ptrdiff_t>(after));
        Xxh3Stream stream(GetParam());
        for (std::size_t done = 0; done < size;) {
          const std::size_t piece = std::min(size - done, random() % 2 == 0 ? size : std::size_t{400});
          stream.update_and_copy(from.subspan(done, piece), std::span(copied).subspan(after + done, piece));
          done += piece;
        }
        ASSERT_EQ(copied, expected) << size << " bytes at " << at << " to " << after;
        ASSERT_EQ(stream.digest(), xxh3(from)) << size << " bytes at " << at << " to " << after;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checksum, EveryKernel,
                         ::testing::Values(Xxh3Kernel::plain, Xxh3Kernel::avx2, Xxh3Kernel::avx512));

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

#if defined(__x86_64__)

/// Whether the upper halves of the AVX registers are in use: bit 2 of what XGETBV gives for ECX = 1.
[[gnu::always_inline]] inline bool upper_halves_in_use() {
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low & 4U) != 0;
}

/// XGETBV with ECX = 1 is there, and the system lets AVX be used.
bool can_tell() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__builtin_cpu_supports("avx") == 0 || __get_cpuid_count(0xd, 1, &a, &b, &c, &d) == 0) {
    return false;
  }
  return (a & 4U) != 0;
}

void use_upper_halves() { asm volatile("vcmpps $0xf, %%ymm1, %%ymm1, %%ymm1" ::: "xmm1"); }

class Registers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_tell()) {
      GTEST_SKIP() << "this processor does not tell which registers are in use";
    }
    use_upper_halves();
    ASSERT_TRUE(upper_halves_in_use()) << "the test would see nothing";
    asm volatile("vzeroupper");
    ASSERT_FALSE(upper_halves_in_use());
  }

  const std::vector<std::byte> bytes_ = std::vector<std::byte>(100'000, std::byte{7});
};

TEST_F(Registers, AreCleanAfterAHash) {
  for (const std::size_t size : {1U, 100U, 200U, 1000U, 100'000U}) {
    const auto hash = xxh3({bytes_.data(), size});
    const bool dirty = upper_halves_in_use();
    EXPECT_FALSE(dirty) << size << " bytes, hash " << hash;
  }
  bool dirty_in_thread = true;
  std::thread([&] {
    static_cast<void>(xxh3(bytes_));
    dirty_in_thread = upper_halves_in_use();
  }).join();
  EXPECT_FALSE(dirty_in_thread);
}

TEST_F(Registers, AreCleanAfterAHashInPieces) {
  Xxh3Stream stream;
  stream.update(bytes_);
  EXPECT_FALSE(upper_halves_in_use());
  std::vector<std::byte> copy(bytes_.size());
  stream.update_and_copy(bytes_, copy);
  EXPECT_FALSE(upper_halves_in_use());
  const auto hash = stream.digest();
  EXPECT_FALSE(upper_halves_in_use()) << hash;
}

#endif

}  // namespace
}  // namespace reprieve::storage
