// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The text of an error that a test expects.

#include <string>

namespace reprieve::test {

/// What the error of that type says that @p call throws; "no error" if it throws none.
template <class Error, class Call>
std::string error_text(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace reprieve::test
