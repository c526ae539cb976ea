// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Memory of a process and of its machine: how much is left, what is mapped, what is shared.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "core/directory.hpp"

namespace reprieve::core {

// How much memory a process can still take before the system kills somebody for it.

struct AvailableMemory {
  std::uint64_t of_node = UINT64_MAX;   ///< free on the whole node; the greatest number if that is unknown
  std::uint64_t of_group = UINT64_MAX;  ///< free in the control group with the least; the same if there is none
  std::string group;                    ///< its directory: processes with the same one share this memory
};
constexpr auto fields_of(const AvailableMemory*) {
  return std::tuple(&AvailableMemory::of_node, &AvailableMemory::of_group, &AvailableMemory::group);
}

/// Linux promises memory that it does not have, and kills when it is used. What can be counted on stands in
/// /proc/meminfo, and in the limits of this process's control groups and of all those above (version 2 and 1).
/// Page cache that can be given up counts as free. Cost: some ten small files.
/// @param root  where /proc and /sys are; tests have another one
[[nodiscard]] AvailableMemory available_memory(const std::filesystem::path& root = "/");

// Whether an address is memory of this process at all.

/// False if a part of [@p first, @p first + @p bytes) is not mapped, or its ends cannot be read: a touch would end the
/// process. True says no more than that: memory that was freed mostly stays mapped when it is small. Up to three system
/// calls: one walks the process's mappings, not its pages.
[[nodiscard]] bool is_mapped(const void* first, std::size_t bytes) noexcept;

// Memory that the system has mapped.

/// Mapped addresses, until this is gone.
class Mapping {
 public:
  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// What mmap(2) gives for these arguments; nothing for no bytes, or if it gives none.
  [[nodiscard]] static Mapping find(std::size_t size, int protection, int flags, int descriptor = -1,
                                    std::uint64_t offset = 0) noexcept;
  /// The same. @throws std::bad_alloc if it gives none
  [[nodiscard]] static Mapping get(std::size_t size, int protection, int flags, int descriptor = -1,
                                   std::uint64_t offset = 0);
  /// Memory of this process alone, from the system itself and not from the heap: what is given back is free for others,
  /// and the pages can be large ones. @throws std::bad_alloc
  [[nodiscard]] static Mapping of_process(std::size_t size);

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return memory_; }

 private:
  std::span<std::byte> memory_;
};

// Memory that processes of one machine share.

/// Where another process of the machine finds it. Plain words, to be sent as they are.
struct SharedMemoryAddress {
  std::int64_t process = -1;
  std::int64_t descriptor = -1;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
};

/// A file without a name that is mapped: the system frees it when no process maps it, however the processes end.
class SharedMemory {
 public:
  /// All of it is taken at once, so that its pages are there when they are written. Nothing if the system has none to
  /// give; a memory cgroup may end the process instead, as with any memory.
  [[nodiscard]] static std::optional<SharedMemory> create(std::size_t bytes) noexcept;
  /// To be read only. Nothing if it cannot be reached: in another machine or container, or after `close_door`.
  [[nodiscard]] static std::optional<SharedMemory> open(const SharedMemoryAddress& address) noexcept;

  /// Only who created it may write.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return memory_.bytes(); }
  [[nodiscard]] SharedMemoryAddress address() const noexcept { return address_; }
  /// Those who have opened it keep it; from now on nobody else can.
  void close_door() noexcept { file_ = Descriptor(); }

 private:
  explicit SharedMemory(Mapping memory) noexcept : memory_(std::move(memory)) {}

  Descriptor file_;
  SharedMemoryAddress address_;
  Mapping memory_;
};

}  // namespace reprieve::core
