// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// One checkpoint file, written or restored in one call: the stages that the manager goes through, without what it does
/// between them.

#include <cstdint>
#include <filesystem>
#include <functional>

#include "cluster/communicator.hpp"
#include "state/registry.hpp"
#include "storage/write/checkpoint_writer.hpp"

namespace reprieve::storage {

/// Returns the bytes of state that all ranks wrote. Collective; the same on every rank, as are the errors.
std::uint64_t write_checkpoint(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                               const std::filesystem::path& file, const FileMetadata& metadata,
                               const WriteOptions& options, LayoutCache& cache);

/// Restores all registered variables. Collective; the same on every rank, as are the errors.
/// @param meanwhile  called on every rank when the metadata are read, and no data
FileMetadata restore_checkpoint(
    cluster::Communicator& comm, const Checkpoint::Registry& registry, const std::filesystem::path& file, bool verify,
    const std::function<void()>& meanwhile = [] {});

}  // namespace reprieve::storage
