// SPDX-License-Identifier: BSD-3-Clause
#include "heat/grid.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <reprieve/error.hpp>

#include "common/ranks.hpp"

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
