// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// One checkpoint file, made of the parts of a near copy: the same, byte for byte, as a save at that step would have
/// written. Local: each process adds the parts that it can reach.

#include "core/file_address.hpp"
#include "storage/near/part_items.hpp"

namespace reprieve::storage {

/// Makes the file with its structure and without data, and without a seal. @throws StorageError
void begin_assembly(const core::FileAddress& file, const StructureImage& image);

/// Writes the data of a part to their places in the file, which has been begun, and makes them durable.
/// @throws CorruptError if the part is damaged: then the file is worth nothing; StorageError
void add_part(const core::FileAddress& file, const Part& part, const FileIndex& index, bool durable);

/// Completes the file, in which all parts are. @param index  with all checksums @throws StorageError
void end_assembly(const core::FileAddress& file, const StructureImage& image, const FileIndex& index, bool durable);

}  // namespace reprieve::storage
