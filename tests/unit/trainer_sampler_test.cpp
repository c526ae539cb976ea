// SPDX-License-Identifier: BSD-3-Clause
// The order of the training samples.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "trainer/dataset.hpp"

namespace trainer {
namespace {

std::vector<std::uint32_t> copy(std::span<const std::uint32_t> batch) { return {batch.begin(), batch.end()}; }

TEST(Sampler, UsesEverySampleOncePerPassAndLeavesTheRemainderOut) {
  Sampler sampler(10, 1);
  for (int pass = 0; pass < 5; ++pass) {
    std::set<std::uint32_t> seen;
    for (int batch = 0; batch < 3; ++batch) {
      const auto indices = sampler.next(3);
      seen.insert(indices.begin(), indices.end());
    }
    EXPECT_EQ(seen.size(), 9U);
    EXPECT_LT(*seen.rbegin(), 10U);
  }
}

TEST(Sampler, ShufflesAnewInEveryPass) {
  Sampler sampler(50, 1);
  const auto first = copy(sampler.next(50));
  const auto second = copy(sampler.next(50));
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), second.begin(), second.end()));
}

TEST(Sampler, DependsOnItsSeedAlone) {
  EXPECT_EQ(copy(Sampler(50, 3).next(50)), copy(Sampler(50, 3).next(50)));
  EXPECT_NE(copy(Sampler(50, 3).next(50)), copy(Sampler(50, 4).next(50)));
}

TEST(Sampler, ContinuesFromACopyOfItsState) {
  Sampler original(20, 1);
  for (int i = 0; i < 7; ++i) {
    original.next(6);
  }
  Sampler restored(20, 99);
  restored.state() = original.state();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(copy(restored.next(6)), copy(original.next(6)));
  }
}

}  // namespace
}  // namespace trainer
