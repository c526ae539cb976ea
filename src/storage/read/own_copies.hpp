// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a rank gets back of distributed variables whose boxes overlap (format/shared_copies.hpp): its own copies, as
/// long as it has the boxes that it had when it saved them.

#include "storage/read/stored_checkpoint.hpp"

namespace reprieve::storage {

/// Whether the file has copies of a variable, saved by as many ranks as there are now.
[[nodiscard]] bool has_copies(const FileIndex& index, const StoredVariable& variable, int ranks);

/// Whether this rank had these boxes, in this order, when the file was written. @throws CorruptError, StorageError
[[nodiscard]] bool had_these_boxes(const StoredCheckpoint& stored, const StoredVariable& variable,
                                   const DistributedArray& array, int rank);

/// Puts this rank's own copies into its boxes, which are those that it had. @throws CorruptError, StorageError
void restore_copies(const StoredCheckpoint& stored, const StoredVariable& variable, const DistributedArray& array,
                    int rank);

}  // namespace reprieve::storage
