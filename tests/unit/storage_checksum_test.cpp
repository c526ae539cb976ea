// SPDX-License-Identifier: BSD-3-Clause
// What hashing leaves behind in the processor.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "storage/bytes/checksum.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace reprieve::storage {
namespace {

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
}

TEST_F(Registers, AreCleanAfterAHashInPieces) {
  Xxh3Stream stream;
  stream.update(bytes_);
  EXPECT_FALSE(upper_halves_in_use());
  const auto hash = stream.digest();
  EXPECT_FALSE(upper_halves_in_use()) << hash;
}

TEST_F(Registers, AreCleanAfterAHashInAThread) {
  bool dirty = true;
  std::thread([&] {
    static_cast<void>(xxh3(bytes_));
    dirty = upper_halves_in_use();
  }).join();
  EXPECT_FALSE(dirty);
}

#endif

}  // namespace
}  // namespace reprieve::storage
