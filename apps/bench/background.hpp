#pragma once

/// @file
/// `reprieve-bench background`: what a save in the background costs the program.

#include <CLI/CLI.hpp>

namespace reprieve::bench {

/// Adds the subcommand; it runs when the command line is parsed. Collective over MPI_COMM_WORLD.
void add_background_command(CLI::App& app, const bool& json);

}  // namespace reprieve::bench
