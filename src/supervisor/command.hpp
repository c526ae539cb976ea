// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A command whose output is of interest, run while the supervisor goes on with other things.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "supervisor/child_process.hpp"

namespace reprieve::supervisor {

/// The same command, whose errors go to its standard output: what launchers say at a failure goes to both.
[[nodiscard]] std::vector<std::string> with_all_output(const std::vector<std::string>& command);

/// Its output must fit into a pipe (64 KiB).
class Command {
 public:
  /// Starts it. @throws UsageError if it is not found
  Command(const std::vector<std::string>& arguments, const EnvironmentChanges& environment);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Kills it and what it has started; its end is told as any other.
  void kill_all() const;
  /// To be told of children that have ended: takes up its own.
  void on_ended(const EndedChild& child);
  /// The exit code; nothing while it runs.
  [[nodiscard]] std::optional<int> code() const noexcept { return code_; }
  /// What it wrote, once it has ended.
  [[nodiscard]] const std::string& output() const noexcept { return output_; }

 private:
  int pipe_ = -1;
  pid_t pid_ = -1;
  std::optional<int> code_;
  std::string output_;
};

}  // namespace reprieve::supervisor
