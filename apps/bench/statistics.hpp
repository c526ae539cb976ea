// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Statistics of repeated measurements.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace reprieve::bench {

struct Summary {
  double median = 0;
  double low = 0;   ///< first quartile
  double high = 0;  ///< third quartile
  double max = 0;
  std::size_t count = 0;
};

/// The quantile by linear interpolation between the two nearest values.
inline double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return sorted[below] * (1 - fraction) + sorted[above] * fraction;
}

/// @param values  at least one
inline Summary summarize(std::vector<double> values) {
  if (values.empty()) {
    throw std::invalid_argument("no measurement to summarise");
  }
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75), values.back(), values.size()};
}

/// The exponent k of the power law y ~ x^k that fits best: least squares in logarithms.
/// @param xs, ys  two or more, greater than zero; not all xs are equal
inline double fitted_exponent(const std::vector<double>& xs, const std::vector<double>& ys) {
  const auto n = static_cast<double>(xs.size());
  double mean_x = 0;
  double mean_y = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    mean_x += std::log(xs[i]) / n;
    mean_y += std::log(ys[i]) / n;
  }
  double covariance = 0;
  double variance = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double x = std::log(xs[i]) - mean_x;
    covariance += x * (std::log(ys[i]) - mean_y);
    variance += x * x;
  }
  return covariance / variance;
}

}  // namespace reprieve::bench
