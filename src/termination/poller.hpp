// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A source of notices that has to be asked again and again, and the thread that does so.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "termination/metadata_answers.hpp"

namespace reprieve::termination {

/// A notice as one process knows it.
struct LocalNotice {
  std::string source;
  std::string message;
  std::chrono::steady_clock::time_point time;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// Something to be asked. Used by one thread at a time.
class PolledSource {
 public:
  virtual ~PolledSource() = default;
  /// For notices and messages.
  [[nodiscard]] virtual std::string name() const = 0;
  /// What there is to be found now. May wait, but not without a limit, and gives up when @p stop is requested. What it
  /// throws is logged once, and it is asked again.
  virtual std::optional<Finding> ask(const std::stop_token& stop) = 0;
  /// Whether it is asked on after a notice, since an earlier deadline may follow.
  [[nodiscard]] virtual bool keeps_asking() const { return false; }
  /// The state is saved, and the process is about to leave for a notice of this source.
  virtual void saved() {}
};

/// Asks one source from a thread of its own, so that a source that hangs holds up no other.
class Poller {
 public:
  using Clock = std::chrono::steady_clock;

  Poller(std::unique_ptr<PolledSource> source, std::chrono::milliseconds interval);
  /// Ends the thread; waits for a question that is under way and does not heed the stop.
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  /// The notice that is not acknowledged. Its deadline is the earliest that the source has told since.
  [[nodiscard]] std::optional<LocalNotice> notice() const;
  /// Whether there is one; without a lock.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  /// The source has hinted at an end since this was last asked.
  [[nodiscard]] std::optional<std::string> take_hint();
  /// Tells the source that the state is saved, if it gave the notice; logs what goes wrong.
  void saved();
  /// The notice was acted on: the next one counts, but not the same announcement again.
  void acknowledge();

 private:
  void watch(const std::stop_token& stop);
  void ask_once(const std::stop_token& stop);
  void take(const std::optional<Finding>& finding);
  void tell_failure(const std::string& what);

  const std::chrono::milliseconds interval_;

  std::mutex asking_;  ///< guards the source
  const std::unique_ptr<PolledSource> source_;
  bool failure_logged_ = false;

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable_any wake_;
  std::optional<LocalNotice> notice_;
  std::atomic<bool> any_{false};  ///< whether there is one
  std::string id_;                ///< of the latest announcement
  std::string acknowledged_;      ///< the announcement that was acted on
  std::optional<std::string> hint_;

  std::jthread thread_;
};

}  // namespace reprieve::termination
