// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// System calls that a signal may interrupt.

#include <cerrno>
#include <utility>

namespace reprieve::core {

/// Repeats a system call, which returns less than 0 and sets errno, for as long as a signal interrupts it. Not for
/// close, which has closed the descriptor even then.
template <class Call>
auto uninterrupted(Call&& call) -> decltype(call()) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

}  // namespace reprieve::core
