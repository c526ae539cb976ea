// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Opening a checkpoint directory: what the ranks have to agree on before and after the chief has opened it. Collective
/// but where it says otherwise.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "cluster/communicator.hpp"
#include "core/drill_orders.hpp"
#include "manager/checkpoint_directory.hpp"
#include "reprieve/manager_options.hpp"

namespace reprieve::manager {

/// The arguments are checked on every rank and compared with the chief's; the path of all is the chief's, since ranks
/// may have been started in different working directories. In a drill it is that of the drill.
/// @throws ConfigError, UsageError on all ranks
[[nodiscard]] std::filesystem::path agree_on_arguments(cluster::Communicator& comm,
                                                       const std::filesystem::path& directory,
                                                       const ManagerOptions& options,
                                                       const std::optional<core::DrillOrders>& drill);

/// The chief's orders, if this is a drill.
[[nodiscard]] std::optional<core::DrillOrders> agree_on_drill(cluster::Communicator& comm);

/// While the directory is opened, the other ranks wait for the chief to get the lock. Not collective.
[[nodiscard]] std::chrono::milliseconds opening_timeout(const ManagerOptions& options);

/// Makes sure that every rank sees the directory that the chief has opened, by @p mark in its lock file.
/// @throws StorageError, on all ranks
void check_directory_is_shared(cluster::Communicator& comm, CheckpointDirectory& directory, const std::string& mark);

}  // namespace reprieve::manager
