// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How two checkpoints differ: arrays, and the states of a drill.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprieve/element_type.hpp"
#include "supervisor/drill.hpp"

namespace reprieve::tool {

// How two arrays of the same type and shape differ.

/// What was found, over all pieces that were compared.
struct Comparison {
  std::uint64_t different = 0;               ///< elements that are not the same
  std::optional<std::uint64_t> first_index;  ///< of the first of them, counted in C order
  /// Greatest |a - b| and |a - b| / max(|a|, |b|) among the different numbers; nothing for types that are not numbers.
  std::optional<long double> max_absolute;
  std::optional<long double> max_relative;
  long double largest = 0;  ///< magnitude of the different numbers, if their difference is finite
  /// Differences that are no finite number, since one side is infinite or not a number. The greatest leave them out.
  std::uint64_t not_finite = 0;
};

/// Compares two pieces and adds to @p comparison. Two elements are the same if no bit differs: a NaN equals itself, and
/// -0.0 is not 0.0.
/// @param first_index  index of the pieces' first element in the whole
void compare_piece(Comparison& comparison, ElementType type, std::uint64_t first_index, std::span<const std::byte> a,
                   std::span<const std::byte> b);

/// One element as people read it, with all its digits; empty for types that are no numbers.
std::string element_text(ElementType type, std::span<const std::byte> element);

// Two checkpoints of a drill: whether they hold the same state, and if not, how far apart they are.

/// Verifies both files, and compares all variables but those to @p ignore.
supervisor::StateComparison compare_states(const std::filesystem::path& a, const std::filesystem::path& b,
                                           const std::vector<std::string>& ignore);

}  // namespace reprieve::tool
