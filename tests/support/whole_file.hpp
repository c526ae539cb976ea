#pragma once

/// @file
/// One checkpoint file, written or restored in one call: the stages that the manager goes through, without what it does
/// between them.

#include <cstdint>
#include <filesystem>

#include "cluster/communicator.hpp"
#include "state/registry.hpp"
#include "storage/read/restorer.hpp"
#include "storage/write/checkpoint_writer.hpp"

namespace reprieve::storage {

/// Returns the bytes of state that all ranks wrote. Collective; the same on every rank, as are the errors.
inline std::uint64_t write_checkpoint(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                                      const std::filesystem::path& file, const FileMetadata& metadata,
                                      const WriteOptions& options, LayoutCache& cache) {
  const auto write = [&] {
    CheckpointWriter writer(comm, file, options, cache);
    writer.plan(registry, metadata);
    writer.write_together();
    writer.complete();
    return writer.state_bytes();
  };
  return comm.together(write, "writing a checkpoint");
}

/// Restores all registered variables. Collective; the same on every rank, as are the errors.
inline FileMetadata restore_checkpoint(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                                       const std::filesystem::path& file, bool verify) {
  const auto restore = [&] {
    Restorer restorer(comm, registry, file, verify);
    restorer.look();
    restorer.prove();
    restorer.restore();
    return restorer.index()->metadata;
  };
  return comm.together(restore, "restoring a checkpoint");
}

}  // namespace reprieve::storage
