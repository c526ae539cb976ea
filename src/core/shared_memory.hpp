// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Memory that processes of one machine look at together.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/directory.hpp"

namespace reprieve::core {

/// Where another process of the machine finds it. Plain words, to be sent as they are.
struct SharedMemoryAddress {
  std::int64_t process = -1;
  std::int64_t descriptor = -1;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
};

/// A file without a name that is mapped: the system frees it when no process maps it any more, however they end.
class SharedMemory {
 public:
  /// All of it is taken at once, so that its pages are there when they are written. Nothing if the system has none to
  /// give; a memory cgroup may end the process instead, as with any memory.
  [[nodiscard]] static std::optional<SharedMemory> create(std::size_t bytes) noexcept;
  /// To be read only. Nothing if it cannot be reached: in another machine or container, or after `close_door`.
  [[nodiscard]] static std::optional<SharedMemory> open(const SharedMemoryAddress& address) noexcept;
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Only who created it may write.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_, size_}; }
  [[nodiscard]] SharedMemoryAddress address() const noexcept { return address_; }
  /// Those who have opened it keep it; from now on nobody else can.
  void close_door() noexcept { file_ = Descriptor(); }

 private:
  SharedMemory(std::byte* memory, std::size_t size) noexcept : memory_(memory), size_(size) {}
  [[nodiscard]] static std::optional<SharedMemory> map(int descriptor, std::size_t bytes, int protection) noexcept;

  Descriptor file_;
  SharedMemoryAddress address_;
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace reprieve::core
