// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The points of the unit cube on which the equation is solved, and how they are split over the ranks. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace heat {

inline constexpr std::size_t kDimensions = 3;

/// One number per dimension, slowest-varying first: z, y, x.
using Index = std::array<std::size_t, kDimensions>;
using Vector = std::array<double, kDimensions>;

enum class Boundary : std::uint8_t {
  dirichlet,  ///< the temperature is zero on the surface of the cube
  periodic,   ///< what leaves through a face comes in through the one opposite
};

/// "2 x 3 x 1", as people name dimensions: x, y, z.
std::string text_of(const Index& index);

/// "dirichlet", "periodic".
const char* to_string(Boundary boundary);

/// The unknowns: with Dirichlet boundaries the points inside of the cube, at (i + 1) h with h = 1 / (n + 1); with
/// periodic ones those at i h with h = 1 / n.
struct Grid {
  Index points{};
  Boundary boundary = Boundary::dirichlet;

  [[nodiscard]] double spacing(std::size_t dimension) const;
  [[nodiscard]] double coordinate(std::size_t dimension, std::size_t index) const;
  [[nodiscard]] std::size_t size() const { return points[0] * points[1] * points[2]; }
};

/// Part of the grid.
struct Box {
  Index offset{};
  Index extent{};

  [[nodiscard]] std::size_t size() const { return extent[0] * extent[1] * extent[2]; }
  friend bool operator==(const Box&, const Box&) = default;
};

/// The part of the rank at @p coordinates of @p ranks ranks per dimension: sizes differ by one point at most.
Box box_of(const Index& points, const Index& ranks, const Index& coordinates);

/// Reorders @p ranks so that the dimension with most points is cut most often. Cuts everything as fairly as it can; the
/// product stays.
Index matched_to(const Index& points, Index ranks);

/// The longest time step with which the explicit scheme is stable.
/// @param diffusivity  length^2 / time, greater than 0
double greatest_stable_time_step(const Grid& grid, double diffusivity);

}  // namespace heat
