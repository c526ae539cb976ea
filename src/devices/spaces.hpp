// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which memory space some memory belongs to.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "reprieve/memory_space.hpp"

namespace reprieve::devices {

/// The spaces that are there at the moment: built-in ones whose driver the program has loaded, and added ones.
class Spaces {
 public:
  Spaces();

  /// The space of the memory [@p first, @p first + @p bytes); null if the host reaches it. The memory is not touched.
  /// When this returns, the work that the device was given has come to its end.
  /// @param named  the space that the program said it belongs to, or null
  /// @throws UsageError if it is not of the named space, or lies there in part only; StorageError if the device fails
  [[nodiscard]] MemorySpace* find(const std::byte* first, std::size_t bytes, MemorySpace* named = nullptr) const;

  /// `core::is_mapped`, once for all small variables in a page. It remembers the answer: use an object for one pass
  /// over the variables.
  [[nodiscard]] bool is_mapped(const std::byte* first, std::size_t bytes) const noexcept;

 private:
  std::vector<std::shared_ptr<MemorySpace>> spaces_;
  mutable std::uintptr_t mapped_page_ = UINTPTR_MAX;  ///< the number of one that can be read; at first of none
};

// The memory spaces that the library knows by itself.

/// Null if the program has not loaded the driver. @param stream  see reprieve::cuda_memory
[[nodiscard]] std::shared_ptr<MemorySpace> find_cuda(void* stream);
[[nodiscard]] std::shared_ptr<MemorySpace> find_hip(void* stream);

// Drivers: libraries that the program has loaded, by the functions that are taken from them.

/// Never loads a library: it finds those that are there, and keeps them there.
class DriverLibrary {
 public:
  /// The first of these names that the program has loaded. @param begin  of all the names @param absent_at  kept from
  /// one search for these names to the next, 0 at first: it is not searched again while nothing has been loaded since
  DriverLibrary(const char* begin, std::initializer_list<const char*> names,
                std::atomic<unsigned long long>& absent_at) noexcept;

  [[nodiscard]] bool loaded() const noexcept { return handle_ != nullptr; }
  /// Takes a function. One that is not there makes the library incomplete.
  template <class Function>
  void take(Function*& function, const char* name) noexcept {
    function = reinterpret_cast<Function*>(symbol(name));
    complete_ = complete_ && function != nullptr;
  }
  [[nodiscard]] bool complete() const noexcept { return complete_; }

 private:
  [[nodiscard]] void* symbol(const char* name) noexcept;

  void* handle_ = nullptr;
  bool complete_ = true;
};

/// The functions of a driver, which `take_functions(library, driver)` takes; null as long as the program has not loaded
/// it, or if a function is not there. Arguments as for DriverLibrary.
template <class Driver>
const Driver* find_driver(const char* begin, std::initializer_list<const char*> names) {
  static std::atomic<const Driver*> found{nullptr};
  if (const Driver* const driver = found.load()) {
    return driver;
  }
  static std::atomic<unsigned long long> absent_at = 0;
  DriverLibrary library(begin, names, absent_at);
  if (!library.loaded()) {
    return nullptr;
  }
  static Driver driver{};
  static const bool complete = take_functions(library, driver);
  if (complete) {
    found.store(&driver);
  }
  return found.load();
}

/// Unpins memory of the host before it is freed: so what failed is tried once more. @return false if it failed twice
[[nodiscard]] bool try_twice(const std::function<void()>& unpin) noexcept;

}  // namespace reprieve::devices
