#pragma once

/// @file
/// `reprieve-bench save`: how soon a state is durable, by every path.

#include <CLI/CLI.hpp>

namespace reprieve::bench {

/// Adds the subcommand; it runs when the command line is parsed. Collective over MPI_COMM_WORLD.
void add_save_command(CLI::App& app, const bool& json);

}  // namespace reprieve::bench
