// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The commands of `reprieve run --after-commit` and `--before-start`: copies of checkpoints to where the machine is
/// not. A shell runs them with the variables FILE and DIRECTORY.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "supervisor/processes.hpp"
#include "supervisor/run_progress.hpp"

namespace reprieve::supervisor {

/// Starts @p command; its last lines are what it says. @throws UsageError if there is no shell
[[nodiscard]] std::unique_ptr<Command> start_in_shell(const std::string& command,
                                                      const std::filesystem::path& directory,
                                                      const std::filesystem::path& file = {});

/// Runs a command for each committed checkpoint, one at a time, beside the program. Thread: one.
class AfterCommit {
 public:
  /// @param limit  how long the command may take for one checkpoint
  AfterCommit(std::string command, std::chrono::milliseconds limit)
      : command_line_(std::move(command)), limit_(limit) {}

  /// A checkpoint was committed. It takes the place of one that still waits: only the newest is needed.
  void add(const std::filesystem::path& file);
  /// Call it often: sees the end of the command, and starts the next one.
  /// @return what there is to say
  std::optional<SupervisorEvent> tick();
  /// Kills the command, if it runs.
  void stop();
  /// Whether a checkpoint waits, or the command runs.
  [[nodiscard]] bool busy() const noexcept { return command_ != nullptr || waiting_.has_value(); }

 private:
  using Clock = std::chrono::steady_clock;
  void start();
  SupervisorEvent end(int code);

  std::string command_line_;
  std::chrono::milliseconds limit_;
  std::unique_ptr<Command> command_;
  std::filesystem::path file_;  ///< of the command that runs, or ran last
  Clock::time_point started_;
  bool killed_ = false;
  std::optional<std::filesystem::path> waiting_;
  Clock::time_point next_start_;
  int failures_ = 0;  ///< in a row, of this checkpoint
};

}  // namespace reprieve::supervisor
