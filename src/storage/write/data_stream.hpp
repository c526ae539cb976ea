// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Writes bytes at their offsets in a file as fast as the file system can. Local: no MPI, no HDF5, on any thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reprieve/save.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/dataset.hpp"

namespace reprieve::storage {

/// So many writes are under way at once.
inline constexpr std::size_t kMaxPendingWrites = 5;
/// Past the page cache, bytes go through `kMaxPendingWrites` buffers of this size: 20 MiB in all. They are kept from
/// one stream to the next.
inline constexpr std::size_t kStreamBufferBytes = std::size_t{4} << 20U;

/// Bytes that follow each other in the file are collected in page-aligned buffers, which are written with O_DIRECT,
/// several at a time. What cannot be written that way (the ends of a piece that share a page with something else, small
/// pieces, file systems without O_DIRECT) goes through the page cache. Nothing is durable before the file is synced.
class DataStream {
 public:
  /// @param file  must outlive the stream
  /// @param io  `automatic` chooses by the file system and by @p expected_bytes; where the way asked for does not work,
  /// the next simpler one is taken
  /// @throws StorageError
  /// @param least_direct_bytes  less than that in one piece goes through the page cache
  DataStream(const PosixFile& file, FileIo io, std::uint64_t expected_bytes,
             std::uint64_t least_direct_bytes = kLeastDirectBytes);
  /// Waits for the writes under way.
  ~DataStream();
  DataStream(const DataStream&) = delete;
  DataStream& operator=(const DataStream&) = delete;

  /// Copies or writes the bytes: they may change afterwards. Until `finish` each byte of the file is written once at
  /// most: the order in which pieces come there is not that of the calls. @param digest  they are added to it, or null
  /// @throws StorageError, also of earlier writes
  void write(std::span<const std::byte> bytes, std::uint64_t offset, Xxh3Stream* digest = nullptr);

  /// So many of the expected bytes are not written. They count as done.
  void leave_out(std::uint64_t bytes) { news_.add(bytes); }

  /// Lets the system begin to flush what has gone through the page cache since the last call, if other bytes go past
  /// it. Does not wait. @throws StorageError, of earlier writes
  void start_writeback();

  /// Returns when all bytes have been handed to the file system. @throws StorageError
  void finish();

  /// True if the next bytes would wait for earlier ones. What goes through the page cache never does.
  [[nodiscard]] bool is_busy() const;

  /// True if bytes go past the page cache.
  [[nodiscard]] bool is_direct() const noexcept { return queue_ != nullptr; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  using Buffer = std::unique_ptr<std::byte, Free>;
  class KeptBuffers;
  class WriteQueue;

  void begin_buffer(std::uint64_t offset);
  void flush();
  void keep_edge(std::span<const std::byte> bytes, std::uint64_t offset);
  void write_edges();
  void write_and_digest(std::span<const std::byte> bytes, std::uint64_t offset, Xxh3Stream* digest);
  void write_cached(std::span<const std::byte> bytes, std::uint64_t offset);
  void wait_for_one();

  const PosixFile& file_;
  const std::uint64_t least_direct_bytes_;
  ProgressLogger news_;
  std::optional<PosixFile> direct_;  ///< the same file, opened with O_DIRECT
  std::vector<Buffer> buffers_;
  std::vector<std::size_t> free_;
  std::size_t under_way_ = 0;
  /// Ends of pieces that share a page with something else, and small pieces. A write through the page cache waits for
  /// all direct writes that are under way in the file, and holds up the next ones: so these come last.
  struct Edge {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<Edge> edges_;
  std::size_t edge_bytes_ = 0;
  bool cached_ = false;  ///< bytes have gone through the page cache since `start_writeback`
  /// The buffer that is being filled: its memory stands for the file from `base_` on, a multiple of the page size;
  /// [begin_, end_) is filled.
  std::optional<std::size_t> current_;
  std::uint64_t base_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::unique_ptr<WriteQueue> queue_;  ///< last: it uses the others
};

}  // namespace reprieve::storage
