// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The metadata of a checkpoint once more, as attributes of a group, which HDF5 tools show at once. Reprieve itself
/// reads the manifest.

#include "storage/format/file_metadata.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::storage {

/// Makes the attributes. Each has a size that does not depend on its value, so that another value can take its place;
/// a text that is longer is cut.
/// @throws StorageError
void create_metadata_attributes(hid_t group, const FileMetadata& metadata);

/// Gives the attributes, which are there, other values.
/// @throws StorageError
void replace_metadata_attributes(hid_t group, const FileMetadata& metadata);

}  // namespace reprieve::storage
