// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the environment of rank 0 says to a manager.

#include <filesystem>

#include "cluster/communicator.hpp"
#include "core/setting.hpp"
#include "reprieve/checkpoint_manager.hpp"

namespace reprieve::manager {

/// The settings of the environment, by key, the same on every rank; none if @p options say that it does not count.
/// Tells on the chief what it changes. Collective.
/// @param directory  that the program asks for. REPRIEVE_DIRECTORY is for the first one that this process asks for, and
/// for that one alone: two parts of a program would otherwise take each other's checkpoints for their own.
/// @throws ConfigError on every rank
core::Json agree_on_environment(cluster::Communicator& comm, const std::filesystem::path& directory,
                                const ManagerOptions& options);

/// The options, and the directory, with what the environment says in place of what the program says.
ManagerOptions in_environment(ManagerOptions options, const core::Json& environment);
std::filesystem::path in_environment(const std::filesystem::path& directory, const core::Json& environment);

}  // namespace reprieve::manager
