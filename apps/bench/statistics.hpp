// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Medians and spreads of repeated measurements.

#include <vector>

namespace reprieve::bench {

/// A summary of repeated measurements of one quantity.
struct Summary {
  double median = 0;
  double low = 0;   ///< first quartile
  double high = 0;  ///< third quartile
  double max = 0;
  std::size_t count = 0;
};

/// @param values  at least one
Summary summarize(std::vector<double> values);

/// The exponent k of the power law y ~ x^k that fits best: least squares in logarithms.
/// @param xs, ys  two or more, greater than zero; not all xs are equal
double fitted_exponent(const std::vector<double>& xs, const std::vector<double>& ys);

}  // namespace reprieve::bench
