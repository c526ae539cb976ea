// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How a run ended. Pure.

#include <filesystem>
#include <optional>
#include <string>

#include "supervisor/run_progress.hpp"

namespace reprieve::supervisor {

/// What came of one start of the program.
struct Verdict {
  enum class End {
    finished,  ///< it came to its end
    saved,     ///< it left after a notice, its state saved
    failed,    ///< anything else
  };
  End end = End::failed;
  int exit_code = 1;   ///< what a supervisor returns for it
  std::string reason;  ///< in words
  /// It committed a checkpoint beyond the one that it began with.
  bool progressed = false;
  /// The next start would meet the same error.
  bool hopeless = false;
  /// It died, without an error of its own, while it read this file.
  std::optional<std::filesystem::path> died_restoring;
};

/// Judges by the run's record. The code of the launcher counts only where the record leaves a choice: launchers return
/// 1 after a signal whatever the ranks return, or 0 after a crash, and a program may return the restart code by itself.
/// With a handler that was made and never closed, 0 is a failure; a program without a handler is believed.
/// @param launcher_code  as a shell shows it: 128 + signal if one killed it
/// @return exit code 0 if finished; the restart code if saved; otherwise the launcher's, or 1 if that would be taken
/// for one of the two
Verdict judge(const RunProgress& progress, int launcher_code);

/// "exit code 7", "signal SIGKILL (137)".
std::string code_text(int shell_code);

}  // namespace reprieve::supervisor
