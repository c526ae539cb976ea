#pragma once

/// @file
/// A part of a file, mapped into memory, that can be read even if somebody cuts the file off meanwhile. Such a read
/// would end the process by SIGBUS; here it brings zeros, and `is_whole` tells it. Safe on any thread.

#include <cstddef>
#include <cstdint>

namespace reprieve::storage {

/// While one lives, a handler for SIGBUS is installed, which leaves what does not concern the mapping to the handler
/// before it. To be made, read and destroyed by one thread.
class GuardedMapping {
 public:
  /// @param size  greater than 0
  GuardedMapping(int descriptor, std::uint64_t offset, std::size_t size) noexcept;
  ~GuardedMapping();
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(const GuardedMapping&) = delete;

  /// Null if the file cannot be mapped, or not be guarded.
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  /// False if what was read may be zeros in place of the file's bytes.
  [[nodiscard]] bool is_whole() const noexcept;

 private:
  void release() const noexcept;

  const std::byte* data_ = nullptr;
  std::size_t number_ = 0;  ///< among those that are guarded at the same time
  bool was_blocked_ = false;
};

}  // namespace reprieve::storage
