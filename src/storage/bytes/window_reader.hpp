// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Small parts of a file that lie close to each other, read together.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "storage/bytes/posix_file.hpp"

namespace reprieve::storage {

/// Small reads that go on behind the one before are served from a window of the file, which grows as long as they do: a
/// call of the system for each would cost more than the bytes. For one thread.
class WindowReader {
 public:
  /// What is larger is not looked for.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 10U;

  /// Keeps a reference.
  explicit WindowReader(const PosixFile& file) : file_(file) {}

  /// Most of this range will be asked for: the system begins to read it.
  void expect(std::uint64_t begin, std::uint64_t end) const noexcept;

  /// The bytes from @p offset on, good until the next call. Empty if they are to be read in the usual way, which also
  /// tells what is wrong with them.
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

}  // namespace reprieve::storage
