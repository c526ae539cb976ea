// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What variables mean, in HDF5's terms: attributes of their datasets, and dimension scales.

#include <vector>

#include "storage/format/file_index.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::storage {

/// Gives the datasets of a file that is being laid out their attributes, and makes the scales. Scales that are not
/// variables have a length, and take no place for data.
/// @param state  the group /state, in which all datasets exist
void write_annotations(hid_t state, const FileIndex& index);

/// No less than they will take in the file.
[[nodiscard]] std::uint64_t most_annotation_bytes(const FileIndex& index);

}  // namespace reprieve::storage
