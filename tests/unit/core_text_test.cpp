// Numbers as messages show them.

#include <gtest/gtest.h>

#include <array>

#include "core/text.hpp"

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

TEST(Text, ListsAreShapes) {
  EXPECT_EQ(list_text(std::array<std::uint64_t, 2>{3, 4}), "[3, 4]");
  EXPECT_EQ(list_text({}), "[]");
}

}  // namespace
}  // namespace reprieve::core
