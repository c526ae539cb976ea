// SPDX-License-Identifier: BSD-3-Clause
// Numbers as messages show them.

#include <gtest/gtest.h>

#include <array>

#include "core/log.hpp"

namespace reprieve::core {
namespace {

using namespace std::chrono_literals;

TEST(Text, SecondsHaveThreeDigits) {
  EXPECT_EQ(seconds_text(21300us), "0.0213 s");
  EXPECT_EQ(seconds_text(42s), "42 s");
  EXPECT_EQ(seconds_text(1500s), "1.5e+03 s");
}

TEST(Text, DurationsAreShort) {
  EXPECT_EQ(duration_text(7.4s), "7 s");
  EXPECT_EQ(duration_text(200s), "3 min 20 s");
  EXPECT_EQ(duration_text(7500s), "2 h 5 min");
}

TEST(Text, SizesHaveAUnit) {
  EXPECT_EQ(size_text(17), "17 B");
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(size_text(~std::uint64_t{0}), "16.0 EiB");
}

TEST(Text, ATransferTellsItsRateAndWhatIsLeft) {
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_EQ(transfer_text(100 * kMiB, 400 * kMiB, 10s), "100.0 MiB of 400.0 MiB, 10.0 MiB/s, 30 s left");
  EXPECT_EQ(transfer_text(0, 400, 10s), "0 B of 400 B, 0 B/s");
  EXPECT_EQ(transfer_text(500, 400, 10s), "500 B of 400 B, 50 B/s");
}

TEST(Text, ListsAreShapes) {
  EXPECT_EQ(list_text(std::array<std::uint64_t, 2>{3, 4}), "[3, 4]");
  EXPECT_EQ(list_text({}), "[]");
}

}  // namespace
}  // namespace reprieve::core
