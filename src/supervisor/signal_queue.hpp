// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Signals as a queue to read from instead of handlers that interrupt.

#include <chrono>
#include <csignal>
#include <vector>

namespace reprieve::supervisor {

/// While it lives, the signals that a supervisor acts on (and SIGCHLD, which wakes it) wait here. SIGCONT is left
/// alone. SIGINT and SIGHUP stay ignored if they were: `nohup` and background jobs of scripts mean it. Thread: main;
/// before other threads start, which inherit the mask.
class SignalQueue {
 public:
  /// @throws Error
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// Waits up to @p limit for a signal; then the signals that have come, in no particular order, each once. May return
  /// early with none.
  std::vector<int> wait(std::chrono::milliseconds limit);

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

}  // namespace reprieve::supervisor
