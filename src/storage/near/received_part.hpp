// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The place of a part of another host.

#include <span>
#include <string>

#include "core/directory.hpp"
#include "storage/near/part_file.hpp"

namespace reprieve::storage {

/// A file in memory, which another process fills piece by piece. Written over and over; used by one thread at a time.
/// Members throw StorageError and std::bad_alloc.
class ReceivedPart {
 public:
  /// Makes the file. @param directory  lives as long as this
  ReceivedPart(const core::Directory& directory, const std::string& name);

  /// What it held is no part any more. @param size  of the whole file that comes, seal included
  void begin(std::size_t size);
  /// Where the bytes behind the seal belong.
  [[nodiscard]] std::span<std::byte> content() const noexcept { return memory_.bytes().first(size_); }
  /// Makes it a part. @param seal  the first bytes of the file
  void seal(std::span<const std::byte> seal);

 private:
  PosixFile file_;
  PartMemory memory_;  ///< behind the seal
  std::size_t size_ = 0;
};

}  // namespace reprieve::storage
