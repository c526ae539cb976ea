// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// When a run reports its progress, for `reprieve status`, `reprieve report`, a drill.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace reprieve::handler {

class RunLog;

/// How long after the last word the next one is due, @p elapsed after the begin: often at first, when people look, and
/// every minute later, so that the log of a month has some ten megabytes.
[[nodiscard]] inline std::chrono::steady_clock::duration news_interval(
    std::chrono::steady_clock::duration elapsed) noexcept {
  return std::clamp<std::chrono::steady_clock::duration>(elapsed / 10, std::chrono::seconds(5),
                                                         std::chrono::minutes(1));
}

/// Writes a step into the event log now and then. A drill wants to know it ten times a second, in the run record alone.
class StepReporter {
 public:
  using Clock = std::chrono::steady_clock;

  StepReporter(bool for_drill, RunLog& log) : for_drill_(for_drill), log_(log) {}

  /// At a check: writes if it is time. Without the memory for it, it is not written.
  void tell(std::uint64_t run_calls, std::chrono::nanoseconds step_time) noexcept;
  [[nodiscard]] Clock::time_point next() const noexcept { return next_; }

 private:
  bool for_drill_;
  RunLog& log_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = for_drill_ ? begin_ : begin_ + news_interval(Clock::duration(0));
};

}  // namespace reprieve::handler
