#pragma once

/// @file
/// Lays out a checkpoint file with HDF5: every dataset with its place, everything that describes it, but no data.

#include <filesystem>

#include "storage/file_index.hpp"
#include "storage/seal.hpp"

namespace reprieve::storage {

/// Creates @p file (replacing one of that name) with a contiguous dataset for every variable of @p index, whose file
/// offsets and file size it fills in, and with the manifest and the tables. Uses serial HDF5; not collective.
/// Returns the seal as far as it is known before the data: the digests of the checksums and of the structure are
/// missing.
/// @throws StorageError
Seal create_laid_out_file(const std::filesystem::path& file, FileIndex& index);

}  // namespace reprieve::storage
