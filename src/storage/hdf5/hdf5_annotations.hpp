// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What variables mean, in HDF5's terms: attributes of their datasets, and dimension scales.

#include <cstdint>

#include "storage/format/file_index.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::storage {

/// The metadata once more, as attributes of a group, which HDF5 tools show at once. Reprieve itself reads the manifest.
/// Makes the attributes, or gives those that are there other values. The size of each does not depend on its value, so
/// that another one can replace it. A longer text is cut. @throws StorageError
enum class Attributes : std::uint8_t { create, replace };
void write_metadata_attributes(hid_t group, const FileMetadata& metadata, Attributes mode);

/// Gives the datasets of a file that is being laid out their attributes, and makes the scales. Scales that are not
/// variables have a length, and take no space for data.
/// @param state  the group /state, in which all datasets exist
void write_annotations(hid_t state, const FileIndex& index);

/// No less than they will take in the file.
[[nodiscard]] std::uint64_t most_annotation_bytes(const FileIndex& index);

}  // namespace reprieve::storage
