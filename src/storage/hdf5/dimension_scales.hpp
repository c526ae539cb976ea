// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Dimensions that variables name (Annotation::dims), as dimension scales: one dataset for each dimension, which all
/// datasets on it refer to. Pure.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// A dimension, and who is on it.
struct DimensionScale {
  struct Use {
    std::size_t variable;   ///< position in the index
    std::size_t dimension;  ///< which of its dimensions
  };

  std::string path;  ///< below /state
  std::uint64_t length = 0;
  bool is_variable = false;  ///< a variable of the program holds the coordinates; else the scale has no data
  std::vector<Use> uses{};   ///< in ascending order
};

/// The scales of all dimensions that have names, and are dimensions of a dataset.
///
/// The scale of a dimension `x` is the variable `x` in the group of the variable that names it, or in one above, if it
/// has one dimension of that length: it holds the coordinates. Otherwise it is a dataset of its own in the group of the
/// variable, called `x`, or if that name means something else there (a dimension `x` of another length, say)
/// `x_<length>`.
[[nodiscard]] std::vector<DimensionScale> plan_scales(const FileIndex& index);

/// Whether the dataset of a variable has the dimensions that its annotation names. Texts are single strings there, and
/// values of several dimensions of which every rank has its own lie one after the other.
[[nodiscard]] bool shows_dimensions(const StoredVariable& variable);

}  // namespace reprieve::storage
