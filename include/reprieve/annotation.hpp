// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a variable means, for people and for the programs that read checkpoint files.

#include <string>
#include <vector>

namespace reprieve {

/// What a variable means: stored with it, for h5py, xarray, ParaView and `reprieve show`. Texts are UTF-8.
struct Annotation {
  /// Of the numbers, as in `m s-1`, `K` (the CF conventions' way to write them): the attribute `units`. At most 255
  /// bytes.
  std::string units = {};
  /// What it is, in words: the attribute `long_name`. At most 4096 bytes.
  std::string description = {};
  /// The names of the dimensions, slowest-varying first, all or none, each once and without `/`: dimension scales, as
  /// netCDF-4 has them. Variables that name the same dimension are on the same grid; a variable of one dimension that
  /// has the name of a dimension holds its coordinates.
  std::vector<std::string> dims = {};

  friend bool operator==(const Annotation&, const Annotation&) = default;
};

}  // namespace reprieve
