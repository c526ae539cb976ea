#pragma once

/// @file
/// All sources of notices of one process behind one question.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reprieve/termination_config.hpp"

namespace reprieve::termination {

/// A notice as one process knows it.
struct LocalNotice {
  std::string source;
  std::string message;
  std::chrono::steady_clock::time_point time;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// Watches the signals and, from a thread of its own, the watcher function of a TerminationConfig.
class NoticeSources {
 public:
  /// Installs the signal handlers and starts the thread, if there is a watcher function.
  explicit NoticeSources(const TerminationConfig& config);
  /// Ends the thread; waits for a call of the watcher function that is under way.
  ~NoticeSources();
  NoticeSources(const NoticeSources&) = delete;
  NoticeSources& operator=(const NoticeSources&) = delete;

  /// The earliest notice that is not acknowledged. Its deadline is its own, or follows from the grace period.
  [[nodiscard]] std::optional<LocalNotice> current() const;

  /// The notice was acted on: look for the next one.
  void acknowledge();

 private:
  void watch();
  void ask_once();
  [[nodiscard]] std::optional<LocalNotice> signal_notice() const;

  const std::vector<int> signals_;
  const std::chrono::milliseconds grace_period_;
  const std::chrono::milliseconds poll_interval_;
  const WatcherFn watcher_fn_;

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable wake_;
  bool stop_ = false;
  bool failure_logged_ = false;
  std::optional<LocalNotice> watched_;
  std::thread thread_;
};

}  // namespace reprieve::termination
