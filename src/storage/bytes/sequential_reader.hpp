// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reads parts of a file that come one after the other, some pieces ahead of who needs them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::storage {

/// While bytes are used, two threads read those that come next into huge pages: past the page cache (O_DIRECT) what it
/// does not hold. Whatever does not work is left to the caller, who reads as usual: then `read` and `digest` return
/// false. For one thread.
class SequentialReader {
 public:
  /// Keeps a reference.
  explicit SequentialReader(const PosixFile& file);
  ~SequentialReader();
  SequentialReader(const SequentialReader&) = delete;
  SequentialReader& operator=(const SequentialReader&) = delete;

  /// The bytes from @p begin to @p end will be asked for, in ascending order. Starts nothing yet.
  void expect(std::uint64_t begin, std::uint64_t end) noexcept;

  /// Fills @p to from @p offset, and adds the bytes to @p digest if there is one. False if that was not expected, or
  /// did not work; then the digest is of no use.
  [[nodiscard]] bool read(std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest);
  /// Adds the bytes to @p digest. False as above.
  [[nodiscard]] bool digest(std::uint64_t offset, std::uint64_t size, Xxh3Stream& digest);

  /// A few bytes that were read ahead, good until the next call. Empty: to be read as usual.
  [[nodiscard]] std::span<const std::byte> view(std::uint64_t offset, std::size_t size);

 private:
  class Ahead;
  /// Calls @p use(bytes) for one piece after the other.
  template <class Use>
  bool for_each_piece(std::uint64_t offset, std::uint64_t size, Use&& use);

  const PosixFile& file_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  bool works_ = true;
  std::unique_ptr<Ahead> ahead_;
};

}  // namespace reprieve::storage
