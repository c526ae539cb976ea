#pragma once

/// @file
/// `reprieve-bench restore`: how fast a state is read back, from the page cache and from the disk.

#include <CLI/CLI.hpp>

namespace reprieve::bench {

/// Adds the subcommand; it runs when the command line is parsed. Collective over MPI_COMM_WORLD.
void add_restore_command(CLI::App& app, const bool& json);

}  // namespace reprieve::bench
