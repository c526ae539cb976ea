// SPDX-License-Identifier: BSD-3-Clause
#include "support/whole_file.hpp"

#include "storage/read/restorer.hpp"

namespace reprieve::storage {

std::uint64_t write_checkpoint(cluster::Communicator& comm, const Checkpoint::Registry& registry,
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

FileMetadata restore_checkpoint(cluster::Communicator& comm, const Checkpoint::Registry& registry,
                                const std::filesystem::path& file, bool verify,
                                const std::function<void()>& meanwhile) {
  const auto restore = [&] {
    Restorer restorer(comm, registry, file, verify);
    restorer.read_structure();
    meanwhile();
    restorer.verify_first();
    restorer.restore();
    return restorer.index()->metadata;
  };
  return comm.together(restore, "restoring a checkpoint");
}

}  // namespace reprieve::storage
