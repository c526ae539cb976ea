// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A thread that acts when a notice has stood for too long: the program may be in a step that does not end in time.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace reprieve::handler {

/// Its end waits for a call that is under way.
class NoticeWatch {
 public:
  /// @param has_notice  asked in the thread, some times in each second
  /// @param act  called in the thread, once for each time that a notice has stood for @p after without an end
  /// @throws std::system_error if the system has no more threads
  NoticeWatch(std::function<bool()> has_notice, std::chrono::milliseconds after, std::function<void()> act);
  NoticeWatch(const NoticeWatch&) = delete;
  NoticeWatch& operator=(const NoticeWatch&) = delete;

 private:
  void watch(const std::stop_token& stop);

  const std::function<bool()> has_notice_;
  const std::chrono::milliseconds after_;
  const std::function<void()> act_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

}  // namespace reprieve::handler
