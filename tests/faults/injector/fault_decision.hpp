// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the replaced calls ask before they do their work.

#include <cerrno>

#include "faults/injector/faulty_calls.hpp"

namespace reprieve::test {

/// 0: the call is to work. Otherwise an error number, kShort, kSkip or kFlip. One of @p path and @p descriptor names
/// the file.
int decide(Call call, const char* path, int descriptor) noexcept;

/// For a call without bytes: does it, or fails.
template <class Real>
int attempt(Call call, const char* path, int descriptor, Real&& real) {
  const int decision = decide(call, path, descriptor);
  if (decision == kSkip) {
    return 0;
  }
  if (decision > 0) {
    errno = decision;
    return -1;
  }
  return real();
}

/// For a call that transfers bytes: @p real(n) transfers n, if it reads to @p read_into.
template <class Real>
auto transfer(Call call, int descriptor, std::size_t size, Real&& real, void* read_into = nullptr)
    -> decltype(real(size)) {
  const int decision = decide(call, nullptr, descriptor);
  if (decision == kSkip) {
    return static_cast<decltype(real(size))>(size);
  }
  if (decision > 0) {
    errno = decision;
    return -1;
  }
  const auto done = real(decision == kShort && size > 1 ? size / 2 : size);
  if (decision == kFlip && done > 0 && read_into != nullptr) {
    static_cast<unsigned char*>(read_into)[done / 2] ^= 0x10U;
  }
  return done;
}

}  // namespace reprieve::test
