// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The start from a node-local copy. local_restore.cpp states the steps. Collective.

#include <optional>

#include "manager/manager_impl.hpp"
#include "manager/restore_walk.hpp"

namespace reprieve::manager {

/// Restores the newest complete copy, if it is newer than all checkpoints of the directory and each rank has its own
/// part on its host. Otherwise makes a checkpoint file of it, which is then the newest one, and returns nothing.
/// @param walk  which goes on with the checkpoints if there is nothing here
/// @throws as CheckpointManager::restore_or_initialize
std::optional<CheckpointInfo> restore_local_copy(CheckpointManager::Impl& manager, RestoreWalk& walk);

}  // namespace reprieve::manager
