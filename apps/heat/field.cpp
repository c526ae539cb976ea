// SPDX-License-Identifier: BSD-3-Clause
#include "heat/field.hpp"

namespace heat {

Field::Field(const Index& extent)
    : extent_(extent),
      padded_{extent[0] + 2 * kGhost, extent[1] + 2 * kGhost, extent[2] + 2 * kGhost},
      strides_{padded_[1] * padded_[2], padded_[2], 1},
      values_(padded_[0] * padded_[1] * padded_[2]) {}

std::vector<Box> inner_and_surface(const Index& extent) {
  // What is left is cut, dimension by dimension, into a first layer, a last layer and the rest between them.
  Box rest{{}, extent};
  std::vector<Box> surface;
  for (std::size_t d = 0; d < kDimensions; ++d) {
    const std::size_t first_layers = rest.extent[d] > 0 ? 1 : 0;
    const std::size_t last_layers = rest.extent[d] > 1 ? 1 : 0;
    Box first = rest;
    first.extent[d] = first_layers;
    Box last = rest;
    last.offset[d] = rest.offset[d] + rest.extent[d] - last_layers;
    last.extent[d] = last_layers;
    surface.push_back(first);
    surface.push_back(last);
    rest.offset[d] += first_layers;
    rest.extent[d] -= first_layers + last_layers;
  }
  surface.insert(surface.begin(), rest);
  return surface;
}

void advance(const Field& from, Field& to, const Box& box, const Vector& weights) {
  const std::size_t row = from.stride(1);
  const std::size_t plane = from.stride(0);
  for (std::size_t z = 0; z < box.extent[0]; ++z) {
    for (std::size_t y = 0; y < box.extent[1]; ++y) {
      const std::size_t begin = from.position({box.offset[0] + z, box.offset[1] + y, box.offset[2]});
      const double* const old = from.data() + begin;
      double* const updated = to.data() + begin;
      for (std::size_t x = 0; x < box.extent[2]; ++x) {
        const double* const at = old + x;
        const double twice = 2 * at[0];
        const double along_z = weights[0] * ((*(at - plane) + at[plane]) - twice);
        const double along_y = weights[1] * ((*(at - row) + at[row]) - twice);
        const double along_x = weights[2] * ((*(at - 1) + at[1]) - twice);
        updated[x] = at[0] + ((along_z + along_y) + along_x);
      }
    }
  }
}

}  // namespace heat
