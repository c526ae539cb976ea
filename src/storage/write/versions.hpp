// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which libraries write a file, for the people who read it later.

#include "storage/format/file_metadata.hpp"

namespace reprieve::storage {

/// Fills in the versions of this library, of MPI and of HDF5, as they are at run time.
/// @throws MpiError, StorageError
void fill_versions(FileMetadata& metadata);

}  // namespace reprieve::storage
