// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A command that answers within seconds, run from inside of a rank.

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/environment.hpp"

namespace reprieve::termination {

/// Runs a program (searched in PATH; no shell) and returns its standard output if it ends with 0; nothing if it cannot
/// be started, fails, writes more than 64 KiB, or does not end within @p limit or before @p stop is requested: then it
/// is killed. Its standard error goes nowhere. Leaves no child behind. Thread: any.
std::optional<std::string> output_of(const std::vector<std::string>& arguments,
                                     const core::EnvironmentChanges& environment_changes,
                                     std::chrono::milliseconds limit, const std::stop_token& stop = {});

}  // namespace reprieve::termination
