// SPDX-License-Identifier: BSD-3-Clause
#include "core/outcome.hpp"

#include "core/no_memory.hpp"

namespace reprieve::core {

namespace {

/// The text is so short that a string holds it without memory of its own.
Failure no_memory(std::uint64_t bytes) { return {ErrorCode::no_memory, "out of memory", -1, bytes}; }

Failure described(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {known.code(), known.what(), known.origin_rank()};
  } catch (const NoMemory& refused) {
    return no_memory(refused.bytes());
  } catch (const std::bad_alloc&) {
    return no_memory(0);
  } catch (const std::exception& other) {
    return {ErrorCode::internal, other.what()};
  } catch (...) {
    return {ErrorCode::internal, "an exception that is not a std::exception"};
  }
}

}  // namespace

Failure failure_of(const std::exception_ptr& error) noexcept {
  try {
    return described(error);
  } catch (...) {  // the copy of the message
    return no_memory(0);
  }
}

void throw_failure(const Failure& failure) {
  if (failure.code == ErrorCode::no_memory && failure.origin_rank < 0) {
    throw NoMemory(failure.asked_bytes);
  }
  throw_error(failure.code, failure.message, failure.origin_rank);
}

}  // namespace reprieve::core
