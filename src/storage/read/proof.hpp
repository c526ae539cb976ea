// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// All ranks together verify a whole file, before anything is restored from it.

#include <cstdint>
#include <utility>

#include "cluster/communicator.hpp"
#include "storage/format/file_index.hpp"
#include "storage/read/block_reader.hpp"

namespace reprieve::storage {

/// The rank that proves a block. A saving rank's blocks: the rank that replaces it now, or several in turn. Replicated
/// variables: all in turn. Pure.
/// @param saver  the rank that wrote it
[[nodiscard]] int prover_of(const StoredVariable& variable, std::uint64_t saver, std::uint64_t block, int saved_by,
                            int ranks);

/// The saving ranks from the first to before the second: a rank now may have to prove blocks of their boxes, and no
/// blocks of others. Pure.
[[nodiscard]] std::pair<std::uint64_t, std::uint64_t> savers_proven_by(int rank, int saved_by, int ranks);

/// Every rank reads its share of the file and compares the checksums. Blocks that differ are read by other ranks too:
/// what one of them reads right is not corrupt, however often the first one reads it wrong. Collective.
/// @param reader  one that verifies, of this file
/// @throws CorruptError that names the corruption, if a block is wrong for all who read it; StorageError (io) that
/// names the rank and its host, if others read right what it does not; StorageError if a rank cannot read
void prove(cluster::Communicator& comm, BlockReader& reader, const FileIndex& index, const std::string& file);

}  // namespace reprieve::storage
