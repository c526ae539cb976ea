// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Arguments from C, checked. All throw UsageError with a text that says what to pass instead.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reprieve/checkpoint.hpp"

namespace reprieve::bindings {

[[noreturn]] void reject_null(const char* what);
[[noreturn]] void reject_place(const char* what);

/// @p handle, which is not null. @param what  "handler"
template <class Handle>
Handle& checked(Handle* handle, const char* what) {
  if (handle == nullptr) [[unlikely]] {
    reject_null(what);
  }
  return *handle;
}

/// Where a result goes. @param what  "handler": its name
template <class T>
T& place_for(T* pointer, const char* what) {
  if (pointer == nullptr) {
    reject_place(what);
  }
  return *pointer;
}

/// @param what  "name", "directory"
std::string checked_text(const char* text, const char* what);

/// The element type that a number of the enumeration `reprieve_type` stands for.
ElementType element_type(int type);

/// @param name  of the variable, @param what  "shape", "offset"
Extents extents(const std::string& name, const char* what, int dimensions, const std::int64_t* values);

/// Null stands for dense memory, which is an empty vector here.
std::vector<std::ptrdiff_t> strides(int dimensions, const std::ptrdiff_t* values);

}  // namespace reprieve::bindings
