// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Options that several benchmarks have.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprieve::bench {

struct CommonOptions {
  int rounds = 9;
  std::filesystem::path directory;
};

/// A state of one large array with many small variables beside it.
struct SmallVariables {
  std::uint64_t count = 2000;
  double large_mib = 64;
};

/// An array that is split along its last dimension.
struct ScatteredRows {
  double mib = 256;
  std::uint64_t row_bytes = 4096;
  double grid_mib = 256;  ///< of another one, of three dimensions, of which each rank has a box
};

/// Whether a name has one of these texts in it; none asks for all.
[[nodiscard]] bool is_wanted(const std::string& name, const std::vector<std::string>& only);

void add_options(CLI::App& command, CommonOptions& options);
void add_options(CLI::App& command, SmallVariables& options);
void add_options(CLI::App& command, ScatteredRows& options);

}  // namespace reprieve::bench
