// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The place of one part, which is written over and over.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/directory.hpp"
#include "storage/near/part_file.hpp"
#include "storage/write/write_item.hpp"

namespace reprieve::storage {

/// One file of this rank, locked while this lives, so that nobody takes it for one of a dead run. Used by one thread at
/// a time. Members throw StorageError and std::bad_alloc.
class PartSlot {
 public:
  /// Makes the file. @param directory  lives as long as this
  PartSlot(const core::Directory& directory, const std::string& name);

  /// What it has for data. More is taken by `copy`.
  [[nodiscard]] std::size_t capacity() const noexcept { return memory_.bytes().size(); }

  /// The memory that a part with these items needs.
  [[nodiscard]] static std::size_t bytes_for(std::span<const WriteItem> items);

  /// Copies what the items refer to, and lets them refer to the copy. What the slot held is no part any more.
  void copy(std::span<WriteItem> items);

  /// What it holds is no part any more. @throws StorageError
  void make_void() const { void_part(file_); }
  /// The whole file, with a complete part in it. Of one in memory. It stays while this lives and `whole` is not called.
  /// @throws StorageError, std::bad_alloc
  [[nodiscard]] std::span<std::byte> whole();
  [[nodiscard]] bool is_in_memory() const noexcept { return in_memory_; }

  /// Completes the part: checksums, tables, seal. @param items  as `copy` has left them
  void complete(std::span<const WriteItem> items, const PartName& name, std::optional<StructureImage> image);

 private:
  void make_room(std::size_t size);

  PosixFile file_;
  PartMemory memory_;
  PartMemory whole_;  ///< kept, since the first look at each page of a mapping is dear
  bool in_memory_;
  std::size_t used_ = 0;
  std::vector<std::uint64_t> rows_;
};

}  // namespace reprieve::storage
