// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The points of the unit cube on which the equation is solved, and how they are split over the ranks. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

// A rank's part of the temperature, with one ghost layer around it, and the scheme that advances it. No MPI.

/// Layers around a rank's box that hold copies of its neighbours' points, or the boundary values.
inline constexpr std::size_t kGhost = 1;

/// The values of a box in C order, padded with the ghost layers, which are zero at first.
class Field {
 public:
  explicit Field(const Index& extent);

  [[nodiscard]] const Index& extent() const noexcept { return extent_; }
  /// Extent with the ghost layers.
  [[nodiscard]] const Index& padded() const noexcept { return padded_; }

  /// Distance in memory of neighbours in a dimension.
  [[nodiscard]] std::size_t stride(std::size_t dimension) const noexcept { return strides_[dimension]; }
  /// Position in `data()` of an interior point, counted from the first interior one.
  [[nodiscard]] std::size_t position(const Index& index) const noexcept {
    return (index[0] + kGhost) * strides_[0] + (index[1] + kGhost) * strides_[1] + (index[2] + kGhost);
  }
  [[nodiscard]] double& operator[](const Index& index) noexcept { return values_[position(index)]; }
  [[nodiscard]] double operator[](const Index& index) const noexcept { return values_[position(index)]; }

  [[nodiscard]] double* data() noexcept { return values_.data(); }
  [[nodiscard]] const double* data() const noexcept { return values_.data(); }

 private:
  Index extent_;
  Index padded_;
  Index strides_;
  std::vector<double> values_;
};

/// Calls @p visit(index) for every interior point, in C order.
template <class Visit>
void for_each_point(const Index& extent, Visit visit) {
  for (std::size_t z = 0; z < extent[0]; ++z) {
    for (std::size_t y = 0; y < extent[1]; ++y) {
      for (std::size_t x = 0; x < extent[2]; ++x) {
        visit(Index{z, y, x});
      }
    }
  }
}

/// The boxes that together make up a box of @p extent. The first one needs no ghost layers. Some may be empty.
std::vector<Box> inner_and_surface(const Index& extent);

/// One step of explicit Euler with the 7-point stencil, for the points of @p box. Every point gets the same operations
/// in the same order wherever it lies, so that the result does not depend on the split.
/// @param weights  diffusivity * time step / spacing^2, per dimension
void advance(const Field& from, Field& to, const Box& box, const Vector& weights);

// The analytic solution that the program is checked against. Pure.

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
