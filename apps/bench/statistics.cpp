#include "statistics.hpp"

#include <algorithm>
#include <stdexcept>

namespace reprieve::bench {

namespace {

/// The quantile by linear interpolation between the two nearest values.
double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return sorted[below] * (1 - fraction) + sorted[above] * fraction;
}

}  // namespace

Summary summarize(std::vector<double> values) {
  if (values.empty()) {
    throw std::invalid_argument("no measurement to summarise");
  }
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75), values.back(), values.size()};
}

}  // namespace reprieve::bench
