// SPDX-License-Identifier: BSD-3-Clause
// The power law that fits measurements best.

#include <gtest/gtest.h>

#include <cmath>

#include "bench/measure.hpp"

namespace reprieve::bench {
namespace {

TEST(FittedExponent, IsThatOfAPowerLaw) {
  const std::vector<double> sizes{1, 10, 100, 1000};
  for (const double exponent : {-1.0, 0.0, 0.5, 1.0, 2.0}) {
    std::vector<double> costs;
    for (const double size : sizes) {
      costs.push_back(3e-6 * std::pow(size, exponent));
    }
    EXPECT_NEAR(fitted_exponent(sizes, costs), exponent, 1e-12);
  }
}

TEST(FittedExponent, OfTwoPointsIsTheSlopeBetweenThem) { EXPECT_NEAR(fitted_exponent({2, 8}, {5, 10}), 0.5, 1e-12); }

/// Errors of equal size in logarithms, above and below in turn, leave the slope between the outer points.
TEST(FittedExponent, IsTheLeastSquaresOfLogarithms) {
  EXPECT_NEAR(fitted_exponent({1, 2, 4, 8}, {1, 4, 4, 16}), 1.2, 1e-12);
}

}  // namespace
}  // namespace reprieve::bench
