// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The space for the next checkpoint, taken in advance.

#include "cluster/communicator.hpp"
#include "manager/checkpoint_directory.hpp"
#include "reprieve/manager_options.hpp"
#include "state/registry.hpp"

namespace reprieve::manager {

/// Takes the space for a checkpoint of @p state. Collective. @throws StorageError, on all ranks
void reserve_space(cluster::Communicator& comm, const Checkpoint::Registry& state, CheckpointDirectory& directory,
                   const ManagerOptions& options);

}  // namespace reprieve::manager
