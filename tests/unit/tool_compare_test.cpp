// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "diff.hpp"

namespace reprieve::tool {
namespace {

template <class T>
Comparison compare(const std::vector<T>& a, const std::vector<T>& b) {
  Comparison comparison;
  compare_piece(comparison, element_type_of<T>(), 0, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
  return comparison;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ToolCompare, EqualAndEmpty) {
  EXPECT_EQ(compare<double>({1, kNan, -0.0}, {1, kNan, -0.0}).different, 0U);
  const Comparison empty = compare<double>({}, {});
  EXPECT_EQ(empty.different, 0U);
  EXPECT_FALSE(empty.first_index);
  EXPECT_FALSE(empty.max_absolute);
}

TEST(ToolCompare, GreatestDifferencesMayBeOfDifferentElements) {
  const Comparison found = compare<double>({100, 1, 5}, {110, 2, 5});
  EXPECT_EQ(found.different, 2U);
  EXPECT_EQ(found.first_index, 0U);
  EXPECT_EQ(found.max_absolute, 10.0L);
  EXPECT_EQ(found.max_relative, 0.5L);
}

TEST(ToolCompare, WhatIsEqualSetsNoScale) {
  const Comparison found = compare<double>({kInfinity, 1e30, 2.0, 3.0}, {kInfinity, 1e30, 2.5, 3.0});
  EXPECT_EQ(found.not_finite, 0U);
  EXPECT_EQ(found.largest, 2.5L);
  EXPECT_EQ(compare<double>({1.0}, {kInfinity}).largest, 0.0L);
}

TEST(ToolCompare, SignOfZeroCounts) {
  const Comparison found = compare<float>({0.0F}, {-0.0F});
  EXPECT_EQ(found.different, 1U);
  EXPECT_EQ(found.max_absolute, 0.0L);
  EXPECT_EQ(found.max_relative, 0.0L);
}

TEST(ToolCompare, NaNAndInfinityAreLeftOutOfTheGreatest) {
  const Comparison found = compare<double>({kNan, kInfinity, 1}, {1, -kInfinity, 3});
  EXPECT_EQ(found.different, 3U);
  EXPECT_EQ(found.not_finite, 2U);
  EXPECT_EQ(found.max_absolute, 2.0L);
}

TEST(ToolCompare, IntegersDoNotOverflow) {
  using Signed = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(compare<std::int64_t>({Signed::min()}, {Signed::max()}).max_absolute, std::exp2(64.0L) - 1);
  EXPECT_EQ(compare<std::uint64_t>({0}, {~std::uint64_t{0}}).max_absolute, std::exp2(64.0L) - 1);
  // A double could not tell these two apart.
  EXPECT_EQ(compare<std::int64_t>({Signed::max()}, {Signed::max() - 1}).max_absolute, 1.0L);
  EXPECT_EQ(compare<std::int8_t>({-128}, {127}).max_absolute, 255.0L);
}

TEST(ToolCompare, ComplexNumbersByTheirDistance) {
  const Comparison found = compare<std::complex<float>>({{1, 1}, {0, 0}}, {{1, 1}, {3, -4}});
  EXPECT_EQ(found.first_index, 1U);
  EXPECT_EQ(found.max_absolute, 5.0L);
  EXPECT_EQ(found.max_relative, 1.0L);
}

TEST(ToolCompare, UnusedBytesOfLongDoubleDoNotCount) {
  std::array<std::byte, sizeof(long double)> a{};
  std::array<std::byte, sizeof(long double)> b{};
  const long double value = 1.5L;
  constexpr std::size_t kUsed = 10;
  std::memcpy(a.data(), &value, kUsed);
  std::memcpy(b.data(), &value, kUsed);
  b.back() = std::byte{1};
  Comparison comparison;
  compare_piece(comparison, element_type_of<long double>(), 0, a, b);
  EXPECT_EQ(comparison.different, 0U);
}

TEST(ToolCompare, OpaqueElementsAsAWhole) {
  const std::array<std::byte, 6> a{};
  std::array<std::byte, 6> b{};
  b[2] = b[3] = std::byte{9};
  Comparison comparison;
  compare_piece(comparison, {ElementClass::opaque, 2}, 0, a, b);
  EXPECT_EQ(comparison.different, 1U);
  EXPECT_EQ(comparison.first_index, 1U);
  EXPECT_FALSE(comparison.max_absolute);
}

TEST(ToolCompare, PiecesAddUp) {
  Comparison comparison;
  const std::vector<int> a{1, 2};
  const std::vector<int> b{1, 4};
  const auto compare_at = [&](std::uint64_t first) {
    compare_piece(comparison, element_type_of<int>(), first, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
  };
  compare_at(1000);
  compare_at(2000);
  EXPECT_EQ(comparison.different, 2U);
  EXPECT_EQ(comparison.first_index, 1001U);
  EXPECT_EQ(comparison.max_absolute, 2.0L);
}

}  // namespace
}  // namespace reprieve::tool
