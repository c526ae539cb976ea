#pragma once

/// @file
/// `reprieve-bench step`: what a step boundary costs, and how soon a signal is acted on.

#include <CLI/CLI.hpp>

namespace reprieve::bench {

/// Adds the subcommand; it runs when the command line is parsed. Collective over MPI_COMM_WORLD.
void add_step_command(CLI::App& app, const bool& json);

}  // namespace reprieve::bench
