// SPDX-License-Identifier: BSD-3-Clause
#include "heat/sine_mode.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <reprieve/error.hpp>
#include <string>

namespace heat {
namespace {

/// A wave with more modes than that would look like another one on the grid.
void check(const Grid& grid, const Modes& modes) {
  for (std::size_t d = 0; d < kDimensions; ++d) {
    const std::uint64_t most = grid.boundary == Boundary::periodic ? (grid.points[d] - 1) / 2 : grid.points[d];
    if (modes[d] < 1 || modes[d] > most) {
      throw reprieve::ConfigError("--modes: " + std::to_string(modes[d]) + " along " + "zyx"[d] +
                                  " is not between 1 and " + std::to_string(most) + ", which is what " +
                                  std::to_string(grid.points[d]) + " " + to_string(grid.boundary) +
                                  " points can show: ask for fewer modes, or for a finer --grid");
    }
  }
}

}  // namespace

SineMode::SineMode(const Grid& grid, const Modes& modes) : grid_(grid), greatest_(1) {
  check(grid, modes);
  const double wave = grid.boundary == Boundary::periodic ? 2 * std::numbers::pi : std::numbers::pi;
  for (std::size_t d = 0; d < kDimensions; ++d) {
    wave_numbers_[d] = wave * static_cast<double>(modes[d]);
    double greatest = 0;
    for (std::size_t i = 0; i < grid.points[d]; ++i) {
      greatest = std::max(greatest, std::abs(factor(d, i)));
    }
    greatest_ *= greatest;
  }
}

double SineMode::factor(std::size_t dimension, std::size_t index) const {
  return std::sin(wave_numbers_[dimension] * grid_.coordinate(dimension, index));
}

double SineMode::initial(const Index& index) const {
  return (factor(0, index[0]) * factor(1, index[1])) * factor(2, index[2]);
}

double SineMode::decay(double diffusivity, double time) const {
  double square = 0;
  for (const double k : wave_numbers_) {
    square += k * k;
  }
  return std::exp(-diffusivity * square * time);
}

double SineMode::decay_of_scheme(const Vector& weights, std::uint64_t steps) const {
  double per_step = 1;
  for (std::size_t d = 0; d < kDimensions; ++d) {
    const double sine = std::sin(wave_numbers_[d] * grid_.spacing(d) / 2);
    per_step -= 4 * weights[d] * sine * sine;
  }
  return std::pow(per_step, static_cast<double>(steps));
}

}  // namespace heat
