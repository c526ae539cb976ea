// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Errors: as values that travel between ranks, those of memory, and those of the file system.

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "reprieve/error.hpp"

namespace reprieve::core {

// Errors as values, so that a rank that failed can still take part in the next collective call.

/// What a failed operation would have thrown.
struct Failure {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  int origin_rank = -1;           ///< if the error named one already
  std::uint64_t asked_bytes = 0;  ///< no_memory: that were asked for; 0: not known
};

/// Nothing if the operation succeeded.
using Outcome = std::optional<Failure>;

/// The failure that belongs to an exception. An `Error` keeps its code, std::bad_alloc becomes `no_memory`, and others
/// become `internal`. Where there is no memory for the message, that is the failure: this never throws.
Failure failure_of(const std::exception_ptr& error) noexcept;

/// Throws what @p failure was made of, with its origin. Memory that could not be had is a NoMemory again.
[[noreturn]] void throw_failure(const Failure& failure);

/// Runs @p operation and catches what it throws. An UnresponsiveError goes through: after it no agreement is possible.
template <class Operation>
Outcome capture(Operation&& operation) {
  try {
    std::invoke(std::forward<Operation>(operation));
    return std::nullopt;
  } catch (const UnresponsiveError&) {
    throw;
  } catch (...) {
    return failure_of(std::current_exception());
  }
}

// The codes by which the page apps/guide/troubleshooting.md explains messages.

/// @p text with the code of its entry, " [RPV-0101]", at the end of its first line. A text with codes, of the errors
/// that it was made of, keeps the first of them alone, where it is.
[[nodiscard]] std::string with_message_code(std::string text);

/// "RPV-0101" of a text that has it; otherwise empty.
[[nodiscard]] std::string message_code_in(std::string_view text);

// Running out of memory, with the size of the request, which std::bad_alloc does not hold.

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
void resize_or_report(Container& container, std::uint64_t size) {
  const std::uint64_t bytes = size * sizeof(typename Container::value_type);
  try {
    container.resize(size);
  } catch (const std::bad_alloc&) {
    throw NoMemory(bytes);
  } catch (const std::length_error&) {
    throw NoMemory(bytes);
  }
}

// The error of a failed file system call.

/// The cause as a code (no_space, permission, io), and a message with the path and the system's own text; where space
/// is missing, with what is left of it.
[[nodiscard]] StorageError storage_error(const std::string& action, const std::filesystem::path& path,
                                         int error_number);

}  // namespace reprieve::core
