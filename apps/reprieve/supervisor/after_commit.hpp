// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The commands of `reprieve run --after-commit` and `--before-start`: copies of checkpoints to where the machine is
/// not. A shell runs them with the variables FILE and DIRECTORY. What became of the first one stands in the event log
/// of the checkpoint directory as well, if there is one.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "supervisor/processes.hpp"
#include "supervisor/run_progress.hpp"

namespace reprieve::supervisor {

/// Starts @p command; its last lines are what it says. @throws UsageError if there is no shell
[[nodiscard]] Command start_in_shell(const std::string& command, const std::filesystem::path& directory,
                                     const std::filesystem::path& file = {});

/// Runs a command for each committed checkpoint, one at a time, beside the program. Thread: one.
class AfterCommit {
 public:
  /// @param limit  how long the command may take for one checkpoint
  AfterCommit(std::string command, std::chrono::milliseconds limit)
      : command_line_(std::move(command)), limit_(limit) {}

  /// Adds what was committed, and what was left when the program has restored its state.
  void take(const core::Event& event, const ManagerProgress& manager);
  /// The supervisor before this one may have been killed in the middle of a copy. Logs what goes wrong.
  void add_uncopied(const std::filesystem::path& directory);
  /// Call it often: sees the end of the command, and starts the next one.
  /// @return what there is to say
  std::optional<SupervisorEvent> tick();
  /// Kills the command, if it runs.
  void stop();
  /// Whether a checkpoint waits, or the command runs.
  [[nodiscard]] bool busy() const noexcept { return command_.has_value() || waiting_.has_value(); }
  /// The command that runs, or 0: it is no process of the program.
  [[nodiscard]] pid_t process() const noexcept { return command_ ? command_->pid() : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Attempt {
    std::filesystem::path file;
    int number = 0;  ///< from 1 on
    Clock::time_point start;
  };
  /// It takes the place of one that still waits: only the newest is needed.
  void add(const std::filesystem::path& file) { waiting_ = Attempt{file, 1, Clock::now()}; }
  void start();
  SupervisorEvent end(int code);

  std::string command_line_;
  std::chrono::milliseconds limit_;
  std::optional<Command> command_;
  Attempt current_;  ///< of the command that runs, or ran last
  bool killed_ = false;
  std::optional<Attempt> waiting_;
};

}  // namespace reprieve::supervisor
