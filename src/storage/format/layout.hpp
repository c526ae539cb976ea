// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// From what all ranks have to write to the datasets of one file. Pure.

#include <vector>

#include "storage/format/description.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// Makes the index of a new file: its variables, boxes, and room for the checksums. The file offsets are not known yet.
/// @param by_rank  every rank's variables, sorted by name
/// @param in_tiles  arrays for which tiles are better than rows get them (dataset.hpp)
/// @throws MismatchError if the ranks registered different variables, types or shapes, listing every difference;
/// UsageError if boxes of one variable overlap
[[nodiscard]] FileIndex plan_file(std::vector<std::vector<Description>> by_rank, const FileMetadata& metadata,
                                  bool in_tiles = true);

/// The same, where the facts of all ranks have been found equal. Takes little memory beside that of the messages.
/// @param chiefs  its own descriptions
/// @param numbers  of each rank, as encode_descriptions makes them
/// @throws UsageError if boxes of one variable overlap
[[nodiscard]] FileIndex plan_file(std::vector<Description> chiefs, std::vector<Bytes> numbers,
                                  const FileMetadata& metadata, bool in_tiles = true);

}  // namespace reprieve::storage
