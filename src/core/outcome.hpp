// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Errors as values, so that a rank that failed can still take part in the next collective call.

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "reprieve/error.hpp"

namespace reprieve::core {

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

}  // namespace reprieve::core
