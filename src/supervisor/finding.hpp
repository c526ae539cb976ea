// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// One thing that an examination found.

#include <string>

namespace reprieve::supervisor {

struct Finding {
  enum class Grade {
    good,
    warning,  ///< it survived; look at it all the same
    problem,  ///< work would be lost
    unknown,  ///< the drill cannot tell
  };
  Grade grade = Grade::good;
  std::string id;      ///< for programs: "exit_code"
  std::string text;    ///< what was seen
  std::string advice;  ///< what to do; empty if nothing
};

/// Lower-case name: "good", "warning", "problem", "unknown".
const char* to_string(Finding::Grade grade) noexcept;

}  // namespace reprieve::supervisor
