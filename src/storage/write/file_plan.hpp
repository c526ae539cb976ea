// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What each rank must know of a file that rank 0 has planned, and what becomes of the checksums that it sends.
/// Local: no MPI, no HDF5.

#include <cstdint>
#include <vector>

#include "storage/bytes/codec.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// What the ranks must know of a file.
struct Places {
  Bytes common;                 ///< for all: address and shape of each dataset, and how the ranks hold the variable
  std::vector<Bytes> of_ranks;  ///< for each rank: its offsets in per-rank variables, its parts of shared ones
};

/// @param piece_bytes  in which the writer transfers collectively; 0: it does not
[[nodiscard]] Places places_in(const FileIndex& index, int ranks, std::uint64_t piece_bytes);

/// Takes over the checksums that every rank sent, in the order of its rows.
/// @throws Error (internal) if a rank sent too few
void place_checksums(FileIndex& index, const std::vector<Bytes>& by_rank);

}  // namespace reprieve::storage
