// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How long steps take, seen from another thread that looks at their count now and then.

#include <algorithm>
#include <chrono>
#include <utility>

#include "cluster/agreement_vector.hpp"

namespace reprieve::cluster {

/// The longest steps of the recent past. A step that is shorter than the time between two looks counts as the mean of
/// those between them, a longer one is known to within that time. Not thread-safe.
class StepWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// What lies further back than twice this says nothing of what comes.
  static constexpr std::chrono::seconds kWindow{30};

  /// @param count  boundaries that were counted by now
  void look(BoundaryIndex count, Clock::time_point now) noexcept {
    if (count == count_) {
      return;
    }
    if (count_ > 0) {  // the first boundary ends no step
      add((now - since_) / (count - count_), now);
    }
    restart(count, now);
  }

  /// What was between this count and now is no step: a save, or a pause.
  void restart(BoundaryIndex count, Clock::time_point now) noexcept {
    count_ = count;
    since_ = now;
  }

  /// Of the recent past; zero if none has been seen.
  [[nodiscard]] std::chrono::nanoseconds longest() const noexcept { return std::max(in_window_, in_window_before_); }
  /// With the one that is under way.
  [[nodiscard]] std::chrono::nanoseconds longest_until(Clock::time_point now) const noexcept {
    return count_ > 0 ? std::max<std::chrono::nanoseconds>(longest(), now - since_) : longest();
  }
  /// Of all since this was last asked.
  [[nodiscard]] std::chrono::nanoseconds take_longest() noexcept {
    return std::exchange(not_taken_, std::chrono::nanoseconds(0));
  }

 private:
  void add(std::chrono::nanoseconds step, Clock::time_point now) noexcept {
    if (now - window_began_ > kWindow) {
      in_window_before_ = now - window_began_ > 2 * kWindow ? std::chrono::nanoseconds(0) : in_window_;
      in_window_ = {};
      window_began_ = now;
    }
    in_window_ = std::max(in_window_, step);
    not_taken_ = std::max(not_taken_, step);
  }

  BoundaryIndex count_ = 0;
  Clock::time_point since_{};
  Clock::time_point window_began_{};
  std::chrono::nanoseconds in_window_{0};
  std::chrono::nanoseconds in_window_before_{0};
  std::chrono::nanoseconds not_taken_{0};
};

}  // namespace reprieve::cluster
