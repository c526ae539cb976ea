// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reads large parts of a file out of the page cache.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::storage {

/// Pieces of the file are read into memory that stays in the processor's cache, get their checksum there, and are
/// copied to their place past that cache: for places that begin in the middle of a line of the cache, as large memory
/// from malloc does. The kernel's own copy to there would take half as long again. For one thread.
class StagedReader {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

  /// Whether a read of many bytes from @p offset to @p to is faster this way: lines of the page cache do not become
  /// lines there.
  [[nodiscard]] static bool is_faster(const std::byte* to, std::uint64_t offset) noexcept;

  /// Fills @p to from @p offset, and adds the bytes to @p digest if there is one. @throws as PosixFile::read_all
  void read(const PosixFile& file, std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest);

 private:
  [[nodiscard]] std::span<std::byte> piece(std::uint64_t offset, std::size_t wanted);

  std::unique_ptr<std::byte[]> memory_;  ///< from the first read on
};

}  // namespace reprieve::storage
