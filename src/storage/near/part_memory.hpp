// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The memory in which the data of a part lie.

#include <cstddef>
#include <cstdint>
#include <span>

#include "storage/bytes/posix_file.hpp"

namespace reprieve::storage {

/// A range of a file in memory, or memory beside it. A file on a disk is never mapped: an error of the disk would end
/// the process by a signal.
class PartMemory {
 public:
  PartMemory() = default;
  ~PartMemory();
  PartMemory(PartMemory&& other) noexcept;
  PartMemory& operator=(PartMemory&& other) noexcept;
  PartMemory(const PartMemory&) = delete;
  PartMemory& operator=(const PartMemory&) = delete;

  /// To be written. The file must have the space. @param offset  of whole pages @throws std::bad_alloc
  [[nodiscard]] static PartMemory of_file(const PosixFile& file, std::uint64_t offset, std::size_t size);
  /// Memory of the process alone. @throws std::bad_alloc
  [[nodiscard]] static PartMemory beside(std::size_t size);
  /// What the file holds there, to be read. @throws StorageError, CorruptError, std::bad_alloc
  [[nodiscard]] static PartMemory read(const PosixFile& file, std::uint64_t offset, std::size_t size);

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_, size_}; }

 private:
  PartMemory(std::byte* memory, std::size_t size) noexcept : memory_(memory), size_(size) {}
  [[nodiscard]] static PartMemory map(int protection, int flags, int descriptor, std::uint64_t offset,
                                      std::size_t size);

  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace reprieve::storage
