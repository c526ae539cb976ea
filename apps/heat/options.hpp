// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The options of the program, on the command line and in a JSON file.

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "common/command_line.hpp"
#include "heat/grid.hpp"

namespace heat {

struct Options : apps::ProgramOptions {
  Index points{64, 64, 64};
  Boundary boundary = Boundary::dirichlet;
  Modes modes{1, 1, 1};
  double diffusivity = 1;
  double time_step_fraction = 0.9;  ///< of the longest stable time step
  std::uint64_t steps = 2000;
  Index ranks{};               ///< per dimension; 0: as MPI likes
  std::filesystem::path xdmf;  ///< the side file for ParaView; empty: none
  std::chrono::milliseconds progress_interval{2000};
};

/// Reads the command line, the file that `--config` names, and the environment. Not collective.
/// @throws reprieve::ConfigError, reprieve::StorageError
Options parse_options(int argc, const char* const* argv);

}  // namespace heat
