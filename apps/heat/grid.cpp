// SPDX-License-Identifier: BSD-3-Clause
#include "heat/grid.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "common/slice.hpp"

namespace heat {

std::string text_of(const Index& index) {
  return std::to_string(index[2]) + " x " + std::to_string(index[1]) + " x " + std::to_string(index[0]);
}

const char* to_string(Boundary boundary) { return boundary == Boundary::periodic ? "periodic" : "dirichlet"; }

double Grid::spacing(std::size_t dimension) const {
  const std::size_t intervals = boundary == Boundary::periodic ? points[dimension] : points[dimension] + 1;
  return 1.0 / static_cast<double>(intervals);
}

double Grid::coordinate(std::size_t dimension, std::size_t index) const {
  const std::size_t intervals_before = boundary == Boundary::periodic ? index : index + 1;
  return static_cast<double>(intervals_before) * spacing(dimension);
}

Box box_of(const Index& points, const Index& ranks, const Index& coordinates) {
  Box box;
  for (std::size_t d = 0; d < kDimensions; ++d) {
    const apps::Slice slice = apps::slice_of(points[d], coordinates[d], ranks[d]);
    box.offset[d] = slice.offset;
    box.extent[d] = slice.size;
  }
  return box;
}

Index matched_to(const Index& points, Index ranks) {
  std::sort(ranks.begin(), ranks.end(), std::greater<>());
  Index longest_first{};
  std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](std::size_t a, std::size_t b) { return points[a] > points[b]; });
  Index matched{};
  for (std::size_t i = 0; i < kDimensions; ++i) {
    matched[longest_first[i]] = ranks[i];
  }
  return matched;
}

double greatest_stable_time_step(const Grid& grid, double diffusivity) {
  double sum = 0;
  for (std::size_t d = 0; d < kDimensions; ++d) {
    sum += 1 / (grid.spacing(d) * grid.spacing(d));
  }
  return 1 / (2 * diffusivity * sum);
}

}  // namespace heat
