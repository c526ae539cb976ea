// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <algorithm>

namespace reprieve::bench {

bool is_wanted(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() ||
         std::ranges::any_of(only, [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

void add_options(CLI::App& command, CommonOptions& options) {
  command.add_option("--rounds", options.rounds, "Rounds; everything runs once in each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--directory", options.directory,
                     "Where to put the files (default: the system's for temporary files)");
}

void add_options(CLI::App& command, SmallVariables& options) {
  command.add_option("--small-count", options.count, "Variables of 4 KiB a rank beside a large array; 0: leave out")
      ->capture_default_str();
  command.add_option("--small-large-mib", options.large_mib, "Size of that large array, in MiB a rank")
      ->capture_default_str();
}

void add_options(CLI::App& command, ScatteredRows& options) {
  command
      .add_option("--rows-mib", options.mib,
                  "Size of an array that is split along its last dimension, in MiB a rank; 0: leave out")
      ->capture_default_str();
  command.add_option("--row-bytes", options.row_bytes, "Length of the rows that each rank has of it")
      ->check(CLI::Range(std::uint64_t{sizeof(double)}, std::uint64_t{1} << 20U))
      ->capture_default_str();
  command
      .add_option("--grid-mib", options.grid_mib,
                  "Size of an array of three dimensions of which each rank has a box, in MiB a rank; 0: leave out")
      ->capture_default_str();
}

}  // namespace reprieve::bench
