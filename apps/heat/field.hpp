// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A rank's part of the temperature, with one ghost layer around it, and the scheme that advances it. No MPI.

#include <cstddef>
#include <span>
#include <vector>

#include "heat/grid.hpp"

namespace heat {

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

/// The boxes that together make up a box of @p extent, the first of which needs no ghost layers. Some may be empty.
std::vector<Box> inner_and_surface(const Index& extent);

/// One step of explicit Euler with the 7-point stencil, for the points of @p box. Every point gets the same operations
/// in the same order wherever it lies, so that the result does not depend on the split.
/// @param weights  diffusivity * time step / spacing^2, per dimension
void advance(const Field& from, Field& to, const Box& box, const Vector& weights);

}  // namespace heat
