// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A file descriptor whose every call is checked. No MPI, no HDF5: safe on any thread.

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/directory.hpp"
#include "core/error.hpp"
#include "core/message.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/checksum.hpp"

namespace reprieve::storage {

using core::Bytes;
using core::Decoder;
using core::Encoder;
using core::storage_error;

/// Throws StorageError (no_space) if this process may not make a file of @p size bytes (RLIMIT_FSIZE); a write beyond
/// that limit would end the process by SIGXFSZ.
void check_file_size_limit(const std::filesystem::path& path, std::uint64_t size);

class PosixFile {
 public:
  /// Opens an existing regular file; to write, not one that a symbolic link stands for. @throws StorageError
  static PosixFile open_to_read(const core::FileAddress& file);
  static PosixFile open_to_write(const core::FileAddress& file);
  /// The same past the page cache (O_DIRECT): what is written must be whole pages in the file and in memory. Nothing if
  /// the file system cannot do that.
  static std::optional<PosixFile> open_direct(const core::FileAddress& file);
  /// Creates an empty file for this user alone, or empties the one of that name.
  static PosixFile create(const core::FileAddress& file);
  /// A file without a directory entry that lies in memory, as far as it has been written. Its path can be opened by
  /// this process while it lives.
  static PosixFile create_in_memory();

  /// Whatever is open already.
  PosixFile(core::FileAddress address, core::Descriptor opened)
      : address_(std::move(address)), descriptor_(std::move(opened)) {}
  ~PosixFile();
  PosixFile(PosixFile&& other) noexcept = default;
  PosixFile& operator=(PosixFile&& other) noexcept = default;
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return address_.path(); }
  [[nodiscard]] const core::FileAddress& address() const noexcept { return address_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }
  /// @throws StorageError
  [[nodiscard]] struct stat status() const;
  /// Whether they are one and the same file. @throws StorageError
  [[nodiscard]] bool is(const PosixFile& other) const;
  /// True if the file system is in memory, so that there is no disk to be fast for.
  [[nodiscard]] bool is_in_memory() const;

  /// Writes all bytes at @p offset, across short writes and interruptions. If the file system refuses a direct write,
  /// this file goes through the page cache from then on. @throws StorageError
  void write_all(std::span<const std::byte> bytes, std::uint64_t offset) const;

  /// Fills @p bytes from @p offset. @throws StorageError; CorruptError if the file ends before
  void read_all(std::span<std::byte> bytes, std::uint64_t offset) const;
  /// The same from the device, as far as the file system can do that: for a second read of bytes that were wrong. This
  /// node's page cache drops them.
  void read_all_again(std::span<std::byte> bytes, std::uint64_t offset) const;

  /// This very file, opened for reading once more, with these flags; not open if the system refuses it.
  [[nodiscard]] core::Descriptor opened_again(int flags) const;

  /// True if the page cache of this node seems to hold these bytes: some of them are asked for.
  [[nodiscard]] bool seems_cached(std::uint64_t offset, std::uint64_t size) const noexcept;
  /// Fills @p bytes from @p offset, as `read_all` does, and adds them to @p digest if there is one, in pieces that are
  /// still in the processor's cache then. @throws as read_all
  void read_and_digest(std::span<std::byte> bytes, std::uint64_t offset, Xxh3Stream* digest) const;

  [[nodiscard]] std::uint64_t size() const { return static_cast<std::uint64_t>(status().st_size); }

  /// Makes the file @p size bytes long and takes the space for it from the file system at once, so that a full disk is
  /// known before any data is written. Where the file system cannot do that, only the length is set.
  /// @throws StorageError (no_space) with the bytes needed and the bytes available
  void allocate(std::uint64_t size) const;

  /// Cuts the file off, or makes it longer by a hole. @throws StorageError
  void set_size(std::uint64_t size) const;

  /// True if the file has other names (hard links), or if the system reports another process that has it open. Its
  /// content must not change then.
  [[nodiscard]] bool is_shared() const;

  /// Lets the system begin to write to the device, and does not wait. Nothing is durable by this; `sync` reports
  /// errors.
  void start_writeback() const noexcept;

  /// fdatasync: returns when the file's data and length are on the device. Times are not waited for: where a file is
  /// written over, this saves the file system a commit of its journal.
  void sync() const;

  /// Closes and reports what close(2) reports; the destructor can only log it.
  void close();

 private:
  [[nodiscard]] bool leave_direct_mode() const;
  [[nodiscard]] bool read_from_device(std::span<std::byte> bytes, std::uint64_t offset) const;
  [[nodiscard]] bool owns(std::uint64_t size) const;

  core::FileAddress address_;
  core::Descriptor descriptor_;
};

/// Calls @p use(piece) for one piece after the other of what lies at @p offset. A piece stays in the processor's cache
/// until it is used. @throws as PosixFile::read_all
template <class Use>
void read_in_pieces(const PosixFile& file, std::uint64_t offset, std::uint64_t size, Use&& use) {
  Bytes buffer(static_cast<std::size_t>(std::min<std::uint64_t>(size, kCachedBytes)));
  for (const std::uint64_t end = offset + size; offset < end; offset += buffer.size()) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(end - offset, buffer.size()));
    file.read_all(piece, offset);
    use(std::span<const std::byte>(piece));
  }
}

/// Logs the progress of a transfer of this process: after ten seconds, and then every ten seconds. Ranks that log only
/// warnings do not show it.
class ProgressLogger {
 public:
  /// @param what  "writing /scratch/checkpoints/ckpt-7.h5"
  ProgressLogger(std::string what, std::uint64_t total_bytes) : what_(std::move(what)), total_(total_bytes) {}

  /// So many more are done. Reads the clock. Without memory for a line, it logs none.
  void add(std::uint64_t bytes) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInterval{10};

  std::string what_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_ + kInterval;
};

}  // namespace reprieve::storage
