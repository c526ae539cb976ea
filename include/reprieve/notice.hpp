// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The types of a notice of the end of a job: its content, its sources, and how it is reported. No MPI.

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace reprieve {

/// What a rank learned about its end.
struct TerminationNotice {
  int rank = -1;        ///< the rank that learned it
  std::string host;     ///< its host
  std::string source;   ///< "signal SIGTERM", "watcher function", "file PREEMPT", "deadline", "metadata server of AWS"
  std::string message;  ///< free text
  /// When it was learned, on that rank's monotonic clock.
  std::chrono::steady_clock::time_point time;
  /// When the job will be killed, if known, on that rank's monotonic clock.
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// The answer of a watcher function: nothing yet, or a notice with an optional message and time left.
struct WatchResult {
  WatchResult() = default;
  WatchResult(bool is_notice) : notice(is_notice) {}  // NOLINT: implicit, so that a function returning bool fits
  bool notice = false;
  std::string message;
  std::optional<std::chrono::milliseconds> time_left;
};

/// Asked from a thread of the library's own, every `poll_interval`, until it gives a notice. Must not call MPI. An
/// exception is logged once and counts as "nothing yet".
using WatcherFn = std::function<WatchResult()>;

/// A metadata server that announces the end of a virtual machine.
enum class MetadataServer { none, gce, aws, azure };

/// The notice of a preemption, as a process sees it that watches the run.
struct PreemptionMessage {
  int rank = -1;                               ///< the rank that had the notice
  std::string host;                            ///< its host
  std::string source;                          ///< "signal SIGTERM", "file PREEMPT", ...
  std::string message;                         ///< free text
  std::chrono::system_clock::time_point time;  ///< when it was noticed
};

}  // namespace reprieve
