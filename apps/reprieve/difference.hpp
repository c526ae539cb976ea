// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which variables of two checkpoints differ, and how.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compare.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::tool {

/// What differs first: a variable that differs in one way is not looked at in the later ways.
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

}  // namespace reprieve::tool
