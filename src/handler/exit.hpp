// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The error file that a job leaves, leaving by oneself, and what run_resilient has to know of the handlers in it. The
/// public ways to leave are in termination_config.hpp.

#include <cstdint>
#include <string>

#include "core/directory.hpp"

namespace reprieve::handler {

// The error file beside the checkpoints: what a supervisor or a person finds when a job ended with an error.

struct ErrorReport {
  int rank = 0;
  std::string host;
  std::uint64_t run_calls = 0;
  std::string message;
};

/// Writes `<directory>/error.json` (rank, host, run_calls, message, time). Failing ranks race for it and the last one
/// wins; each writes a whole file. A failure to write is logged, since the error itself matters more.
void write_error_report(const core::Directory& directory, const ErrorReport& report) noexcept;

/// Removes the file of an earlier run.
void remove_error_report(const core::Directory& directory) noexcept;

/// Ends this process with @p exit_code after a save, and waits for no other rank. Not collective.
[[noreturn]] void leave_alone(int exit_code) noexcept;

/// The life of this process in run_resilient. Thread: the one that may call MPI.
struct Life {
  bool is_later = false;             ///< ranks have died: variables of the program may hold values of lost steps
  bool is_saved_for_notice = false;  ///< a handler has saved for a notice, and the program leaves
};
Life& life() noexcept;

}  // namespace reprieve::handler
