// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A piece of a file that lies in the page cache, read where it lies.

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/memory.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::storage {

/// Maps a piece of a file. The kernel's own copy out of the page cache (`pread`) would take up to twice as long.
///
/// A page that is gone, because the file was cut off or its device failed, is a SIGBUS for whoever reads it. While a
/// piece lives, that signal is this process's handler's: it puts zeros in the place of the piece, and the piece is not
/// intact from then on. libwayland does the same for memory that its clients cut off (`wl_shm_buffer_begin_access`).
/// A SIGBUS elsewhere goes to the handler that was there before. For one thread, one piece at a time in each; the
/// handler is there as long as a piece is.
class MappedPiece {
 public:
  /// Of more, the page tables cost more than the copy of smaller pieces.
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;

  MappedPiece(const PosixFile& file, std::uint64_t offset, std::size_t size) noexcept;
  ~MappedPiece();
  MappedPiece(const MappedPiece&) = delete;
  MappedPiece& operator=(const MappedPiece&) = delete;

  /// Empty if the system cannot map the file, or not read it.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// False if some of what was read of it up to now was not in the file.
  [[nodiscard]] bool is_intact() const noexcept { return lost_ == 0; }

 private:
  class Handler;

  core::Mapping pages_;
  std::span<const std::byte> bytes_;
  bool guarded_ = false;
  sigset_t blocked_before_ = {};
  volatile std::sig_atomic_t lost_ = 0;
};

/// Calls @p use(bytes) for one piece of the range after the other. False if that does not work: then what was given is
/// worth nothing, and the caller reads in the usual way, which also reports errors.
template <class Use>
[[nodiscard]] bool for_each_mapped_piece(const PosixFile& file, std::uint64_t offset, std::uint64_t size, Use&& use) {
  while (size > 0) {
    const std::size_t part = std::min<std::uint64_t>(size, MappedPiece::kMostBytes);
    const MappedPiece piece(file, offset, part);
    if (piece.bytes().empty()) {
      return false;
    }
    use(piece.bytes());
    if (!piece.is_intact()) {
      return false;
    }
    offset += part;
    size -= part;
  }
  return true;
}

}  // namespace reprieve::storage
