#pragma once

/// @file
/// `reprieve-bench scale`.

#include <CLI/CLI.hpp>

namespace reprieve::bench {

/// @param json  whether to print JSON; read when the command runs
void add_scale_command(CLI::App& app, const bool& json);

}  // namespace reprieve::bench
