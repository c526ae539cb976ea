// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Where a handler puts the notice that all ranks have agreed on, for other threads of its process.

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "reprieve/notice.hpp"

namespace reprieve::termination {

class NoticeBoard {
 public:
  void post(PreemptionMessage message) {
    {
      const std::lock_guard lock(mutex_);
      ++count_;
      latest_ = std::move(message);
    }
    posted_.notify_all();
  }

  /// How many have been posted so far.
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  /// Waits until more than @p seen are posted and returns the latest; nothing if @p stop is requested before.
  std::optional<PreemptionMessage> wait_for_more(std::size_t seen, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return posted_.wait(lock, stop, [&] { return count_ > seen; }) ? latest_ : std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any posted_;
  std::size_t count_ = 0;
  std::optional<PreemptionMessage> latest_;
};

}  // namespace reprieve::termination
