// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a writer is given and what it gives back.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/file_address.hpp"
#include "storage/write/write_item.hpp"

namespace reprieve::storage {

/// Everything a rank needs to write its part of a file: places that the chief laid out, and the memory that goes there.
/// Made collectively; from then on the direct writer needs neither MPI nor HDF5.
struct WritePlan {
  /// One variable, as much as all ranks must know of it to write it together.
  struct Variable {
    std::string name;
    ElementType type;
    std::uint64_t file_offset = 0;  ///< of the dataset
    std::uint64_t bytes = 0;        ///< of the whole dataset
    std::uint64_t most_pieces = 0;  ///< where the ranks write it together: the greatest number that any has
    bool scattered = false;         ///< some rank has it in pieces too small for a write of their own
    std::size_t first_item = 0;     ///< this rank's boxes of it
    std::size_t item_count = 0;
  };

  core::FileAddress file;
  FileIo io = FileIo::automatic;  ///< how bytes go to the file system
  std::vector<Variable> variables;
  std::vector<WriteItem> items;  ///< by variable
  /// What the file holds already, of this rank; null: nothing is known of that.
  std::shared_ptr<WrittenRanges> ranges;
  std::uint64_t state_bytes = 0;  ///< of all ranks

  /// For the stream: with ranges that are left out, the pieces between them are shorter.
  [[nodiscard]] std::uint64_t least_direct_bytes() const {
    return ranges && ranges->leaves_out() ? kRangeBytes : kLeastDirectBytes;
  }
  /// What this rank writes.
  [[nodiscard]] std::uint64_t own_bytes() const;
  /// Where the last dataset ends.
  [[nodiscard]] std::uint64_t end_in_file() const;
};

/// This rank's part of a file, written but not yet durable.
struct WrittenPart {
  std::vector<std::uint64_t> checksums;  ///< of the blocks of the plan's items
  /// The file, if this rank wrote anything. It stays open until it is synced: the kernel reports a failed write-back to
  /// those who had the file open.
  std::optional<PosixFile> file;
};

}  // namespace reprieve::storage
