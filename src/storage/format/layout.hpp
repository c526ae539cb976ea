// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// From what all ranks have to write to the datasets of one file, and from these to what each rank must know of them.
/// Pure.

#include <vector>

#include "storage/format/description.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// Makes the index of a new file: its variables, boxes, and room for the checksums. The file offsets are not known yet.
/// @param by_rank  every rank's variables, sorted by name
/// @param in_chunks  arrays for which chunks are better than rows get them (dataset.hpp)
/// @throws MismatchError if the ranks registered different variables, types or shapes, listing every difference;
/// UsageError if boxes of one variable overlap
[[nodiscard]] FileIndex plan_file(std::vector<std::vector<Description>> by_rank, const FileMetadata& metadata,
                                  bool in_chunks = true);

/// The same. Takes little memory beside that of the messages where the facts of all ranks are equal.
/// @param told  by every rank, as encode_descriptions makes it; facts that are equal on all ranks by rank 0 alone
/// @throws Error (internal) if a message is cut short. Cost: of the order of all boxes, with their logarithm.
[[nodiscard]] FileIndex plan_file(std::vector<DescriptionMessage> told, const FileMetadata& metadata,
                                  bool in_chunks = true);

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
