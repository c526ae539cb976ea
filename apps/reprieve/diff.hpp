// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How two checkpoints differ: arrays, then variables, then the states of a drill.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprieve/element_type.hpp"
#include "storage/read/inspect_file.hpp"
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

// Which variables of two checkpoints differ, and how.

/// What differs first: a variable that differs in one way is not compared in the later ways.
enum class Problem { only_in_a, only_in_b, kind, type, shape, values };

/// Lower-case name: "only_in_a", "kind", "values", ...
const char* to_string(Problem problem) noexcept;

/// One variable that is not the same in both files.
struct Difference {
  std::string variable;
  Problem problem = Problem::values;
  std::string a;  ///< kind, type, shape: what it is there
  std::string b;
  bool other_ranks = false;  ///< a per-rank variable of so many ranks here, and so many there
  // For values:
  std::uint64_t elements = 0;     ///< in the whole variable
  Comparison comparison;          ///< counts and sizes
  std::optional<int> first_rank;  ///< per-rank variables: whose element the first different one is
  Extents first_index;            ///< of the first different element, in the variable or in that rank's part
};

/// The result of a comparison of two files.
struct DifferenceReport {
  std::size_t variables = 0;            ///< names in either file
  std::uint64_t bytes = 0;              ///< compared
  std::vector<Difference> differences;  ///< sorted by name
};

/// Compares all variables of two files, in pieces, so that memory does not grow with the files. The data are taken as
/// they are; verify the files first.
/// @param progress  called with bytes done and bytes in all
/// @throws CorruptError, StorageError, MismatchError (a format of a later version)
DifferenceReport find_differences(const std::filesystem::path& a, const std::filesystem::path& b,
                                  const std::function<void(std::uint64_t, std::uint64_t)>& progress);

// Two checkpoints of a drill: whether they hold the same state, and if not, how far apart they are.

/// Differences of floating-point numbers up to this part of the greatest of the numbers that differ are what another
/// order of sums may leave. Numbers that are equal do not count: a fill value would hide every difference.
inline constexpr double kFloatRounding = 1e-4;
inline constexpr double kDoubleRounding = 1e-9;

/// Verifies both files, and compares all variables but those to @p ignore.
supervisor::StateComparison compare_states(const std::filesystem::path& a, const std::filesystem::path& b,
                                           const std::vector<std::string>& ignore);

}  // namespace reprieve::tool
