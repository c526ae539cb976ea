// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which memory space some memory belongs to.

#include <atomic>
#include <cstddef>
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

 private:
  std::vector<std::shared_ptr<MemorySpace>> spaces_;
};

// The memory spaces that the library knows by itself.

/// Null if the program has not loaded the driver. @param stream  see reprieve::cuda_memory
[[nodiscard]] std::shared_ptr<MemorySpace> find_cuda(void* stream);
[[nodiscard]] std::shared_ptr<MemorySpace> find_hip(void* stream);

// Functions of a library that the program has loaded.

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
  }
  [[nodiscard]] bool complete() const noexcept { return missing_ == nullptr; }
  /// The name of a function that is not there.
  [[nodiscard]] const char* missing() const noexcept { return missing_; }

 private:
  [[nodiscard]] void* symbol(const char* name) noexcept;

  void* handle_ = nullptr;
  const char* missing_ = nullptr;
};

}  // namespace reprieve::devices
