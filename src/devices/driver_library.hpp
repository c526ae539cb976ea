// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Functions of a library that the program has loaded.

#include <atomic>
#include <initializer_list>

namespace reprieve::devices {

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
