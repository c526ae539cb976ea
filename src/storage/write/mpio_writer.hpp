// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A time limit on calls that cannot be interrupted.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace reprieve::storage {

/// Aborts the process if a stage takes longer than the limit, after one line on stderr that names it. Only for calls
/// that nothing else ends, such as a collective MPI-IO call in which one rank has failed.
class Watchdog {
 public:
  Watchdog(std::string who, std::chrono::milliseconds limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// A new stage with the whole of the time limit.
  void enter(std::string stage);

 private:
  void watch();

  const std::string who_;
  const std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string stage_ = "start";
  std::chrono::steady_clock::time_point deadline_;
  bool done_ = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace reprieve::storage
