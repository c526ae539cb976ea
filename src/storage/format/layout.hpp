// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// From what all ranks have to write to the datasets of one file, and from these to what each rank must know of them.
/// Pure.

#include <vector>

#include "storage/format/description.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// Which arrays lie in chunks (dataset.hpp).
enum class Chunking : std::uint8_t {
  none,
  where_better,  ///< those for which chunks are better than rows
  compressed,    ///< and all that may be compressed
};

/// Makes the index of a new file: its variables, boxes, and room for the checksums. The file offsets are not known yet.
/// @param by_rank  every rank's variables, sorted by name
/// @throws MismatchError if the ranks registered different variables, types or shapes, listing every difference;
/// UsageError if boxes of one variable overlap
[[nodiscard]] FileIndex plan_file(std::vector<std::vector<Description>> by_rank, const FileMetadata& metadata,
                                  Chunking chunking = Chunking::where_better);

/// The same. Takes little memory beside that of the messages where the facts of all ranks are equal.
/// @param messages  of every rank, as encode_descriptions makes it; facts that are equal on all ranks by rank 0 alone
/// @throws Error (internal) if a message is cut short. Cost: of the order of all boxes, with their logarithm.
[[nodiscard]] FileIndex plan_file(std::vector<DescriptionMessage> messages, const FileMetadata& metadata,
                                  Chunking chunking = Chunking::where_better);

/// What the ranks must know of a file.
struct FileOffsets {
  Bytes common;                 ///< for all: address and shape of each dataset, and how the ranks hold the variable
  std::vector<Bytes> of_ranks;  ///< for each rank: its offsets in per-rank variables, its parts of shared ones
};

[[nodiscard]] FileOffsets offsets_in(const FileIndex& index, int ranks);

/// Takes over the checksums that every rank sent, in the order of its rows; after them, if it compressed blocks, as
/// many sizes. @throws Error (internal) if a rank sent too few
void place_checksums(FileIndex& index, const std::vector<Bytes>& by_rank);

/// A dimension that variables name (Annotation::dims), and who is on it. It becomes one dataset, a dimension scale,
/// which all datasets on it refer to.
struct DimensionScale {
  struct Use {
    std::size_t variable;   ///< position in the index
    std::size_t dimension;  ///< which of its dimensions
  };

  std::string path;  ///< below /state
  std::uint64_t length = 0;
  bool is_variable = false;  ///< a variable of the program holds the coordinates; else the scale has no data
  std::vector<Use> uses{};   ///< in ascending order
};

/// The scales of all dimensions that have names, and are dimensions of a dataset.
///
/// The scale of a dimension `x` is the variable `x` in the group of the variable that names it, or in one above, if it
/// has one dimension of that length: it holds the coordinates. Otherwise it is a dataset of its own in the group of the
/// variable, called `x`, or if that name means something else there (a dimension `x` of another length, say)
/// `x_<length>`.
[[nodiscard]] std::vector<DimensionScale> plan_scales(const FileIndex& index);

}  // namespace reprieve::storage
