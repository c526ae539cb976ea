// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Helper threads: without signals, for one piece of work each, or to watch over calls that nothing else ends.

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
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

/// The time in which this process ran, for limits: a long gap between two calls is left out, as of a job that was
/// suspended (SIGSTOP, `scontrol suspend`) or a machine that slept. Used by one thread at a time.
class RunningTime {
 public:
  using Clock = std::chrono::steady_clock;
  /// Waits call `elapsed` far more often.
  static constexpr std::chrono::seconds kLongestGap{2};

  explicit RunningTime(Clock::time_point now = Clock::now()) noexcept : last_(now) {}

  /// Since the beginning.
  [[nodiscard]] Clock::duration elapsed(Clock::time_point now = Clock::now()) noexcept {
    const auto since = now - last_;
    last_ = now;
    ran_ += since > kLongestGap ? Clock::duration::zero() : since;
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

// A time limit on calls that cannot be interrupted.

/// Ends the process if a stage takes longer than the limit. Only for calls that nothing else ends, such as a collective
/// MPI-IO call in which one rank has failed.
class Watchdog {
 public:
  /// @param end  called on a thread, with the stage; it does not return
  Watchdog(std::chrono::milliseconds limit, std::function<void(const std::string& stage)> end);
  /// Aborts, after one line on stderr that names the stage.
  Watchdog(std::string who, std::chrono::milliseconds limit);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// A new stage with the whole of the time limit.
  void enter(std::string stage);

 private:
  void watch(const std::stop_token& stop);

  const std::chrono::milliseconds limit_;
  const std::function<void(const std::string& stage)> end_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::string stage_ = "start";
  std::chrono::steady_clock::time_point deadline_;
  std::jthread thread_;  ///< last: it uses the others, and ends before them
};

}  // namespace reprieve::core
