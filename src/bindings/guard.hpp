// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The wall between the library's exceptions and C: what a function throws becomes a code and a message.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "reprieve/checkpoint.hpp"

namespace reprieve::bindings {

/// Keeps the exception for `reprieve_last_error_message` of this thread. Returns its code.
int remember(const std::exception_ptr& error) noexcept;

/// Runs @p operation; what it throws is remembered. Returns the code for C.
template <class Operation>
int guarded(Operation&& operation) noexcept {
  try {
    std::invoke(std::forward<Operation>(operation));
    return 0;
  } catch (...) {
    return remember(std::current_exception());
  }
}

/// The same for calls whose failure must not get lost if nobody checks the code: the first one is kept in @p
/// first_failure, and `open` reports it on every rank.
template <class Operation>
int guarded_and_kept(core::Outcome& first_failure, Operation&& operation) noexcept {
  return guarded([&] {
    try {
      std::invoke(std::forward<Operation>(operation));
    } catch (...) {
      if (!first_failure) {
        first_failure = core::failure_of(std::current_exception());
      }
      throw;
    }
  });
}

/// Calls a callback of the program's, whose result is 0 unless it failed.
/// @param what  "the describe function of variable 'field'"
/// @throws ClusterError with the text of `reprieve_callback_error`
void check_callback(const std::string& what, const std::function<int()>& call);

// Arguments from C, checked. All throw UsageError with a text that says what to pass instead.

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
