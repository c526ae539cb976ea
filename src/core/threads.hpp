// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Helper threads: without signals, for one piece of work each.

#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <thread>

#include "core/error.hpp"

namespace reprieve::core {

// Keeps signals away from helper threads.

/// Blocks all signals on this thread while it lives: a thread that is started meanwhile inherits that, and leaves the
/// signals to the threads of the application.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_ = {};
};

// Limits of time.

/// The time in which this process ran, for limits: a gap between two looks is left out, as of a job that was suspended
/// (SIGSTOP, `scontrol suspend`) or a machine that slept. Used by one thread at a time.
class RunningTime {
 public:
  using Clock = std::chrono::steady_clock;
  /// Waits look far more often.
  static constexpr std::chrono::seconds kLongestLook{2};

  explicit RunningTime(Clock::time_point now = Clock::now()) noexcept : last_(now) {}

  /// Since the beginning.
  [[nodiscard]] Clock::duration look(Clock::time_point now = Clock::now()) noexcept {
    const auto since = now - last_;
    last_ = now;
    ran_ += since > kLongestLook ? Clock::duration::zero() : since;
    return ran_;
  }

 private:
  Clock::time_point last_;
  Clock::duration ran_{};
};

// One piece of work on a thread of its own.

/// Runs @p work on a thread that takes no signals and runs on any core. Its end can be waited for with a time limit;
/// work that does not end within any is left behind, so it must own all that it uses.
class BackgroundTask {
 public:
  /// If there is no thread to be had, runs the work before it returns, and says so in the log.
  explicit BackgroundTask(std::function<void()> work);
  /// Does not wait for work that is not done.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// Any thread. Cost: one load.
  [[nodiscard]] bool done() const noexcept;
  /// Waits until the work is done; false if it is not after @p limit.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds limit) const;
  /// What the work threw, if it is done and did. What it wrote is visible after this.
  [[nodiscard]] Outcome outcome() const;
  /// How long the work took beside this thread, if it is done: nothing if it was done before the constructor returned.
  [[nodiscard]] std::chrono::steady_clock::duration duration() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace reprieve::core
