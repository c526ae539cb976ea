// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The subcommands, one in the source file of each name. They run when the command line is parsed. Collective over
/// MPI_COMM_WORLD.

#include <CLI/CLI.hpp>

namespace reprieve::bench {

/// What a step boundary costs, and how soon a signal is acted on. @param json  whether to print JSON; read when it runs
void add_step_command(CLI::App& app, const bool& json);
/// How soon a state is durable, by every path.
void add_save_command(CLI::App& app, const bool& json);
/// What a near copy costs the program, and a start from one.
void add_near_command(CLI::App& app, const bool& json);
/// What a save in the background costs the program.
void add_background_command(CLI::App& app, const bool& json);
/// How fast a state is read back, from the page cache and from the disk.
void add_restore_command(CLI::App& app, const bool& json);
/// How long it takes until a handler is there.
void add_start_command(CLI::App& app, const bool& json);
/// How costs grow, also for numbers of ranks that are not there.
void add_scale_command(CLI::App& app, const bool& json);

}  // namespace reprieve::bench
