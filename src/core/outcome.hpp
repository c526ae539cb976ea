#pragma once

/// @file
/// Errors as values, so that a rank that failed can still take part in the next collective call.

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
};

/// Nothing if the operation succeeded.
using Outcome = std::optional<Failure>;

/// The failure that belongs to an exception. An `Error` keeps its code; std::bad_alloc and others become `internal`.
Failure failure_of(const std::exception_ptr& error);

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
