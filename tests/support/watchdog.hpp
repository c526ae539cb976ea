// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Ends a test process that hangs, and says where it hung.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace reprieve::test {

/// Every rank has one. When a rank stays in one place for longer than the limit, it prints
/// `[rank 1/4] stuck in Suite.Test for 60 s`, leaves the other ranks a moment to say where they are, and ends the
/// process, whereupon mpirun ends the job.
class Watchdog {
 public:
  Watchdog(int rank, int size, std::chrono::seconds limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Names the place ("in Suite.Test") and starts the clock again.
  void enter(std::string place);
  /// Names the place without touching the clock, so that all ranks of a stuck test speak at the same time.
  void rename(std::string place);

 private:
  using Clock = std::chrono::steady_clock;
  void watch(const std::stop_token& stop);
  [[noreturn]] void give_up() const;

  const std::string who_;
  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string place_ = "at the start";
  Clock::time_point entered_ = Clock::now();
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace reprieve::test
