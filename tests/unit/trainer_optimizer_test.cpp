// SPDX-License-Identifier: BSD-3-Clause
// The trainer's update rules, by hand and in slices.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/ranks.hpp"
#include "trainer/model.hpp"

namespace trainer {
namespace {

TEST(Sgd, MovesByTheVelocity) {
  Optimizer optimizer(OptimizerKind::sgd, 0.5, 1);
  std::vector<double> parameter{1};
  optimizer.update(parameter, std::vector<double>{2}, 1);
  EXPECT_DOUBLE_EQ(parameter[0], 1 - 0.5 * 2);
  optimizer.update(parameter, std::vector<double>{0}, 2);
  EXPECT_DOUBLE_EQ(parameter[0], 0 - 0.5 * 0.9 * 2);
}

TEST(Adam, FirstStepsAreAsLongAsTheLearningRate) {
  Optimizer optimizer(OptimizerKind::adam, 0.01, 2);
  std::vector<double> parameters{0, 0};
  const std::vector<double> gradient{1e-3, -5};
  optimizer.update(parameters, gradient, 1);
  EXPECT_NEAR(parameters[0], -0.01, 1e-6);
  EXPECT_NEAR(parameters[1], 0.01, 1e-6);
  optimizer.update(parameters, gradient, 2);
  EXPECT_NEAR(parameters[0], -0.02, 1e-6);
  EXPECT_NEAR(parameters[1], 0.02, 1e-6);
}

class EveryOptimizer : public testing::TestWithParam<OptimizerKind> {};

TEST_P(EveryOptimizer, SlicesUpdateLikeTheWhole) {
  constexpr std::size_t kSize = 11;
  constexpr std::size_t kParts = 3;
  std::vector<double> whole(kSize, 1.0);
  std::vector<double> sliced = whole;
  Optimizer one(GetParam(), 0.1, kSize);
  std::vector<Optimizer> parts;
  for (std::size_t part = 0; part < kParts; ++part) {
    parts.emplace_back(GetParam(), 0.1, apps::slice_of(kSize, part, kParts).size);
  }
  for (std::uint64_t step = 1; step <= 5; ++step) {
    std::vector<double> gradient(kSize);
    for (std::size_t i = 0; i < kSize; ++i) {
      gradient[i] = std::sin(static_cast<double>(i + step));
    }
    one.update(whole, gradient, step);
    for (std::size_t part = 0; part < kParts; ++part) {
      const apps::Slice slice = apps::slice_of(kSize, part, kParts);
      parts[part].update(std::span(sliced).subspan(slice.offset, slice.size),
                         std::span<const double>(gradient).subspan(slice.offset, slice.size), step);
    }
  }
  EXPECT_EQ(sliced, whole);
}

TEST_P(EveryOptimizer, FindsTheMinimumOfAParabola) {
  Optimizer optimizer(GetParam(), 0.05, 1);
  std::vector<double> x{3};
  for (std::uint64_t step = 1; step <= 2000; ++step) {
    optimizer.update(x, std::vector<double>{2 * (x[0] - 1)}, step);
  }
  EXPECT_NEAR(x[0], 1, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryOptimizer, testing::Values(OptimizerKind::sgd, OptimizerKind::adam),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

TEST(Slices, CoverARangeInOrder) {
  for (std::size_t total : {0U, 1U, 7U, 64U}) {
    for (std::size_t parts = 1; parts <= 9; ++parts) {
      std::size_t next = 0;
      for (std::size_t part = 0; part < parts; ++part) {
        const apps::Slice slice = apps::slice_of(total, part, parts);
        ASSERT_EQ(slice.offset, next);
        ASSERT_LE(slice.size, total / parts + 1);
        ASSERT_GE(slice.size, total / parts);
        next += slice.size;
      }
      ASSERT_EQ(next, total);
    }
  }
}

}  // namespace
}  // namespace trainer
