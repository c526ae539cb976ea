#pragma once

/// @file
/// What the chief makes of the descriptions of all ranks: the index of the file, and what each rank must know of it.
/// Local: no MPI, no HDF5.

#include <cstdint>
#include <span>
#include <vector>

#include "storage/bytes/codec.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// @param descriptions  of each rank, by `encode_descriptions`
/// @throws as plan_file. Cost: of the order of all boxes, with their logarithm.
[[nodiscard]] FileIndex plan_from(std::span<const Bytes> descriptions, const FileMetadata& metadata);

/// For each rank a message: for each variable the dataset's place and shape, and the rank's place in it.
/// @param piece_bytes  in which the writer transfers collectively; 0: it does not
[[nodiscard]] std::vector<Bytes> places_in(const FileIndex& index, int ranks, std::uint64_t piece_bytes);

}  // namespace reprieve::storage
