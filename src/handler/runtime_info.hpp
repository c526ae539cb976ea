// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a handler finds around it: the platform, the sources of notices that are this rank's to watch, and the other
/// ranks' processes.

#include <filesystem>
#include <memory>

#include "cluster/communicator.hpp"
#include "core/run_record.hpp"
#include "reprieve/platform.hpp"
#include "reprieve/termination_config.hpp"
#include "termination/notice_sources.hpp"

namespace reprieve::handler {

struct RuntimeInfo {
  PlatformInfo platform;
  bool grace_was_asked_for = false;  ///< by the program or its user, not filled in for the platform
};

/// Finds the platform, and completes @p config by it. Collective.
/// @param reads_settings  the environment's settings count
[[nodiscard]] RuntimeInfo find_runtime_info(cluster::Communicator& comm, TerminationConfig& config,
                                            bool reads_settings);

/// Signals and the watcher function on every rank, the metadata server on one of each node, the rest on rank 0.
[[nodiscard]] termination::SourceSettings sources_of(cluster::Communicator& comm, const TerminationConfig& config,
                                                     const RuntimeInfo& runtime_info,
                                                     const std::filesystem::path& directory);

/// Lists the ranks' processes in @p directory for those who want to know whether the run has gone, until the lock ends.
/// Collective.
[[nodiscard]] std::unique_ptr<core::WorkerLock> record_workers(cluster::Communicator& comm,
                                                               const std::filesystem::path& directory);

}  // namespace reprieve::handler
