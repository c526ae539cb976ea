// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// When the ranks are to be told that the job is about to end. Pure: the time is given.

#include <chrono>
#include <optional>

#include "supervisor/run_progress.hpp"

namespace reprieve::supervisor {

/// Keeps a request until the ranks can hear it, and repeats the notice until the record shows that it arrived: a signal
/// that comes while a launcher starts is lost, and one that comes before a rank watches it kills the job.
class NoticePlan {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param patience  how long to wait for a program that tells nothing; then it is sent the notice all the same. One
  /// that has opened its checkpoint directory is waited for without a limit: it may have much to restore, and what it
  /// restores is safe.
  explicit NoticePlan(std::chrono::milliseconds patience) : patience_(patience) {}

  /// The job is about to end, for all starts of the program to come too. Only the first call counts.
  void request(Clock::time_point now);
  [[nodiscard]] bool requested() const noexcept { return requested_.has_value(); }

  /// The program is started, again.
  void begin_run();

  /// Whether to send the notice at this moment. True is counted as sent.
  bool send_is_due(const RunProgress& progress, Clock::time_point now);

  /// How often it was sent since the program started.
  [[nodiscard]] int sent() const noexcept { return sent_; }

 private:
  std::chrono::milliseconds patience_;
  std::optional<Clock::time_point> requested_;
  int sent_ = 0;
  Clock::time_point last_sent_;
};

}  // namespace reprieve::supervisor
