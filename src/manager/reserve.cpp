// SPDX-License-Identifier: BSD-3-Clause
#include "manager/reserve.hpp"

#include <algorithm>

#include "storage/bytes/codec.hpp"
#include "storage/write/checkpoint_writer.hpp"
#include "storage/write/data_stream.hpp"

namespace reprieve::manager {

namespace {

/// This rank's share of a file, filled with zeros. Blocks that have been written once are faster to write again than
/// blocks that are only allocated.
void write_zeros(const core::FileAddress& spare, std::uint64_t size, std::uint64_t rank, std::uint64_t ranks,
                 const ManagerOptions& options) {
  const storage::PosixFile file = storage::PosixFile::open_to_write(spare);
  const std::uint64_t end = size / ranks * (rank + 1) + (rank + 1 == ranks ? size % ranks : 0);
  const storage::Bytes zeros(storage::kStreamBufferBytes);
  storage::DataStream stream(file, options.io, size / ranks);
  for (std::uint64_t offset = size / ranks * rank; offset < end; offset += zeros.size()) {
    stream.write(std::span(zeros).first(static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), end - offset))),
                 offset);
  }
  stream.finish();
  file.sync();
}

}  // namespace

void reserve_space(cluster::Communicator& comm, const Checkpoint::Registry& state, CheckpointDirectory& directory,
                   const ManagerOptions& options) {
  const std::string what = "reserving the space for a checkpoint";
  const std::uint64_t size = storage::most_checkpoint_bytes(comm, state);
  try {
    comm.on_chief([&] { directory.reserve(size); }, what);
    comm.agree(core::capture([&] {
                 write_zeros(directory.spare(), size, static_cast<std::uint64_t>(comm.rank()),
                             static_cast<std::uint64_t>(comm.size()), options);
               }),
               what);
  } catch (const StorageError&) {
    if (comm.is_chief()) {
      directory.release_reserve();
    }
    throw;
  }
}

}  // namespace reprieve::manager
