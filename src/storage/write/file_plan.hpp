// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the chief makes of the descriptions of all ranks: the index of the file, and what each rank must know of it.
/// Local: no MPI, no HDF5.

#include <cstdint>
#include <vector>

#include "storage/bytes/codec.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// What the ranks told the chief, by encode_descriptions.
struct Told {
  std::vector<Bytes> facts;    ///< the chief's alone, if those of all ranks are equal; otherwise of each rank
  std::vector<Bytes> numbers;  ///< of each rank
};

/// @param in_tiles  arrays for which tiles are better than rows get them
/// @throws as plan_file. Cost: of the order of all boxes, with their logarithm.
[[nodiscard]] FileIndex plan_from(Told told, const FileMetadata& metadata, bool in_tiles = true);

/// What the ranks must know of a file.
struct Places {
  Bytes common;                 ///< for all: of each variable the dataset's place and shape, and how the ranks hold it
  std::vector<Bytes> of_ranks;  ///< for each rank: its places in per-rank variables, its parts of shared ones
};

/// @param piece_bytes  in which the writer transfers collectively; 0: it does not
[[nodiscard]] Places places_in(const FileIndex& index, int ranks, std::uint64_t piece_bytes);

/// Takes over the checksums that every rank sent, in the order of its rows.
/// @throws Error (internal) if a rank sent too few
void place_checksums(FileIndex& index, const std::vector<Bytes>& by_rank);

}  // namespace reprieve::storage
