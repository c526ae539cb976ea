// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a part holds, by the tables of the file that it is a part of.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "storage/format/file_index.hpp"
#include "storage/near/part_file.hpp"
#include "storage/write/write_item.hpp"

namespace reprieve::storage {

/// A row of the table of boxes that is not empty. Its elements lie side by side.
struct PartRow {
  std::uint64_t first_checksum = 0;  ///< which no other row has
  std::uint64_t offset = 0;          ///< from the begin of the data
};

/// The rows of a part, ascending. @throws CorruptError if it is not of that file
[[nodiscard]] std::vector<PartRow> rows_of(const Part& part, const FileIndex& index);

/// The same as items that can be written into the file. @param data  of the part, to which the items refer
/// @throws CorruptError
[[nodiscard]] std::vector<WriteItem> items_of(const Part& part, std::span<const std::byte> data,
                                              const FileIndex& index);

/// Whether its tables fit those of that file. Reads nothing. @throws CorruptError that names the rank
void check_tables(const Part& part, const FileIndex& index);

/// Compares the checksums of all blocks. @throws CorruptError that names the rank
void check_part(const Part& part, const FileIndex& index);

}  // namespace reprieve::storage
