// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Two checkpoints of a drill: whether they hold the same state, and if not, how far apart they are.

#include <filesystem>
#include <string>
#include <vector>

#include "supervisor/drill_facts.hpp"

namespace reprieve::tool {

/// Differences of floating-point numbers up to this part of the greatest of the numbers that differ are what another
/// order of sums may leave. Numbers that are equal do not count: a fill value would hide every difference.
inline constexpr double kFloatRounding = 1e-4;
inline constexpr double kDoubleRounding = 1e-9;

/// Verifies both files, and compares all variables but those to @p ignore.
supervisor::StateComparison compare_states(const std::filesystem::path& a, const std::filesystem::path& b,
                                           const std::vector<std::string>& ignore);

}  // namespace reprieve::tool
