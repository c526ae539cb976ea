// SPDX-License-Identifier: BSD-3-Clause
#include "handler/notice_watch.hpp"

#include <utility>

#include "core/log.hpp"
#include "core/threads.hpp"

namespace reprieve::handler {

namespace {

/// Seldom enough to be lost among what else an idle system does, and soon beside any grace period.
constexpr std::chrono::milliseconds kLookAtNotices{100};

}  // namespace

NoticeWatch::NoticeWatch(std::function<bool()> has_notice, std::chrono::milliseconds after, std::function<void()> act)
    : has_notice_(std::move(has_notice)), after_(after), act_(std::move(act)) {
  const core::SignalsBlocked blocked;
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void NoticeWatch::watch(const std::stop_token& stop) {
  std::chrono::steady_clock::time_point since;  // the first check that found a notice
  bool stands = false;
  bool has_acted = false;
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, stop, kLookAtNotices, [&] { return stop.stop_requested(); })) {
    try {
      if (!has_notice_()) {
        stands = has_acted = false;
        continue;
      }
      const auto now = std::chrono::steady_clock::now();
      if (!std::exchange(stands, true)) {
        since = now;
      }
      if (!has_acted && now - since >= after_) {
        has_acted = true;
        act_();
      }
    } catch (const std::exception& error) {
      core::log::warning("a notice has stood for long, and nothing could be done about it: {}", error.what());
    }
  }
}

}  // namespace reprieve::handler
