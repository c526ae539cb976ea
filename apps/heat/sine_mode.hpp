// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The analytic solution that the program is checked against. Pure.

#include <cstdint>

#include "heat/grid.hpp"

namespace heat {

/// Half waves (Dirichlet) or waves (periodic) per dimension: z, y, x.
using Modes = std::array<std::uint64_t, kDimensions>;

/// A product of sines decays without changing its shape, in the equation and in the scheme: the error of the scheme is
/// known beforehand, up to rounding.
class SineMode {
 public:
  /// @throws reprieve::ConfigError if the grid is too coarse for the modes
  SineMode(const Grid& grid, const Modes& modes);

  /// The initial temperature at a point.
  [[nodiscard]] double initial(const Index& index) const;

  /// What is left of the initial temperature at @p time: exp(-diffusivity k^2 time).
  [[nodiscard]] double decay(double diffusivity, double time) const;

  /// What the scheme leaves of it after @p steps time steps, in exact arithmetic.
  [[nodiscard]] double decay_of_scheme(const Vector& weights, std::uint64_t steps) const;

  /// The greatest initial temperature at a point of the grid.
  [[nodiscard]] double greatest_initial() const noexcept { return greatest_; }

 private:
  [[nodiscard]] double factor(std::size_t dimension, std::size_t index) const;

  Grid grid_;
  Vector wave_numbers_{};
  double greatest_ = 0;
};

}  // namespace heat
