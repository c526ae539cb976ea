// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Ways to read a file fast: ahead of who needs it, and small parts together. What the page cache holds is read by
/// plain calls: a mapping is faster on some machines, and five times slower on virtual ones that keep their own page
/// tables.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::storage {

/// Reads parts of a file that come one after the other. While bytes are used, two threads read those that come next
/// into huge pages: past the page cache (O_DIRECT) what it does not hold. Whatever does not work is left to the caller,
/// who reads as usual. For one thread.
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

/// Small reads that continue behind the one before are served from a window of the file, which grows as long as they
/// do: a call of the system for each would cost more than the bytes. For one thread.
class WindowReader {
 public:
  /// What is larger is not looked for.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 10U;

  /// Keeps a reference.
  explicit WindowReader(const PosixFile& file) : file_(file) {}

  /// Most of this range will be asked for: the system begins to read it.
  void expect(std::uint64_t begin, std::uint64_t end) const noexcept;

  /// The bytes from @p offset on, good until the next call. Empty: the caller must read them in the usual way, which
  /// also reports errors.
  [[nodiscard]] std::span<const std::byte> at(std::uint64_t offset, std::size_t size);

 private:
  /// Farther apart, what lies between would cost more than a call.
  static constexpr std::uint64_t kMostBetween = std::uint64_t{8} << 10U;
  static constexpr std::size_t kLeastWindow = std::size_t{16} << 10U;
  static constexpr std::size_t kMostWindow = std::size_t{256} << 10U;

  [[nodiscard]] bool holds(std::uint64_t offset, std::size_t size) const noexcept {
    return offset >= begin_ && offset <= end_ && size <= end_ - offset;
  }
  void load(std::uint64_t offset);

  const PosixFile& file_;
  std::unique_ptr<std::byte[]> memory_;  ///< from the first window on
  std::size_t window_ = kLeastWindow;    ///< the size of the next one
  std::uint64_t begin_ = 0;              ///< of what the memory holds of the file
  std::uint64_t end_ = 0;
  std::uint64_t asked_ = ~std::uint64_t{0};  ///< the end of what was asked for last
};

/// The way to read a file: it chooses among those above. For one thread.
class FileReader {
 public:
  /// Keeps a reference.
  explicit FileReader(const PosixFile& file) : file_(file), ahead_(file), windows_(file) {}

  /// The bytes from @p begin to @p end will be asked for, in ascending order.
  void expect(std::uint64_t begin, std::uint64_t end) noexcept { ahead_.expect(begin, end); }
  /// Most of them will be asked for in small parts.
  void expect_small(std::uint64_t begin, std::uint64_t end) const noexcept { windows_.expect(begin, end); }

  /// Fills @p to from @p offset, and adds the bytes to @p digest if there is one. False if `PosixFile::read_all` is as
  /// fast; then the digest is as at its begin. @throws as PosixFile::read_all
  [[nodiscard]] bool read(std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest);
  /// Adds bytes to @p digest; they go nowhere else. False if it does not work; then the digest is of no use.
  /// @throws as PosixFile::read_all
  [[nodiscard]] bool digest(std::uint64_t offset, std::uint64_t size, Xxh3Stream& digest);
  /// A few bytes, good until the next call. Empty: the caller must read them in the usual way, which also reports
  /// errors.
  [[nodiscard]] std::span<const std::byte> view(std::uint64_t offset, std::size_t size);

 private:
  const PosixFile& file_;
  SequentialReader ahead_;
  WindowReader windows_;
};

}  // namespace reprieve::storage
