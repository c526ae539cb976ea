// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Running out of memory, with what std::bad_alloc does not tell: how much was asked for.

#include <cstdint>
#include <new>
#include <stdexcept>

namespace reprieve::core {

/// Memory that could not be had.
class NoMemory : public std::bad_alloc {
 public:
  /// @param bytes  that were asked for; 0: not known
  explicit NoMemory(std::uint64_t bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] const char* what() const noexcept override { return "out of memory"; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::uint64_t bytes_;
};

/// Resizes a container that can be large. @throws NoMemory
template <class Container>
void resize_or_tell(Container& container, std::uint64_t size) {
  const std::uint64_t bytes = size * sizeof(typename Container::value_type);
  try {
    container.resize(size);
  } catch (const std::bad_alloc&) {
    throw NoMemory(bytes);
  } catch (const std::length_error&) {
    throw NoMemory(bytes);
  }
}

}  // namespace reprieve::core
