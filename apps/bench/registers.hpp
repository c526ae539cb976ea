#pragma once

/// @file
/// `reprieve-bench registers`: whether the program's own arithmetic is as fast after a save or a restore as before.

#include <CLI/CLI.hpp>

namespace reprieve::bench {

/// Adds the subcommand; it runs when the command line is parsed. Collective over MPI_COMM_WORLD.
void add_registers_command(CLI::App& app, const bool& json);

}  // namespace reprieve::bench
