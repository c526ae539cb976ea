#pragma once

/// @file
/// Lays out a checkpoint file with HDF5: every dataset with its place, everything that describes it, but no data.

#include <filesystem>

#include "storage/file_index.hpp"
#include "storage/seal.hpp"

namespace reprieve::storage {

/// Creates @p file (replacing one of that name) with a contiguous dataset for every variable of @p index, whose file
/// offsets and file size it fills in, and with the manifest and the tables. The disk space for all data is taken.
///
/// HDF5 works on a file in memory, from which all but the data is then copied: HDF5 1.10 cannot survive an I/O error
/// when it closes a file (it crashes in MPI_Finalize), and its thousands of small writes cost nothing there.
/// Not collective. Returns the seal as far as it is known before the data: the digest of the checksums is missing.
/// @throws StorageError
Seal create_laid_out_file(const std::filesystem::path& file, FileIndex& index);

}  // namespace reprieve::storage
