// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A copy of one rank's part of the state, so that the program can go on while it is written.

#include <cstddef>
#include <span>

#include "storage/write/write_item.hpp"

namespace reprieve::storage {

/// Memory for one copy, kept from one save to the next: only the first pays for getting it from the system.
/// Not thread-safe.
class StateCopy {
 public:
  StateCopy() = default;
  ~StateCopy();
  StateCopy(const StateCopy&) = delete;
  StateCopy& operator=(const StateCopy&) = delete;

  /// Copies what the items refer to and lets them refer to the copy, which lies side by side. It lives until the next
  /// call. @throws std::bad_alloc, or what a device's memory throws: the items are as they were
  void take(std::span<WriteItem> items);

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

 private:
  void reserve(std::size_t size);
  void release() noexcept;

  std::byte* memory_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace reprieve::storage
