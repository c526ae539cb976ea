// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What `reprieve run` shows on standard error, between the output of the program.

#include <string>

#include "supervisor/supervisor_event.hpp"

namespace reprieve::tool {

class RunOutput {
 public:
  enum class Form {
    text,   ///< a line per event; on a terminal a status line as well
    json,   ///< a JSON object per event
    quiet,  ///< only what a person has to know: warnings, and why there is no further start
  };

  explicit RunOutput(Form form);
  ~RunOutput();
  RunOutput(const RunOutput&) = delete;
  RunOutput& operator=(const RunOutput&) = delete;

  void event(const supervisor::SupervisorEvent& event);
  /// Shown in place, until the next event; nothing unless standard error is a terminal.
  void status(const std::string& text);

 private:
  void wipe();

  Form form_;
  bool terminal_;
  bool status_shown_ = false;
};

}  // namespace reprieve::tool
