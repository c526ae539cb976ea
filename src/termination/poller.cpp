// SPDX-License-Identifier: BSD-3-Clause
#include "termination/poller.hpp"

#include <utility>

#include "core/log.hpp"
#include "core/saturating_time.hpp"
#include "core/signals_blocked.hpp"

namespace reprieve::termination {

Poller::Poller(std::unique_ptr<PolledSource> source, std::chrono::milliseconds interval)
    : interval_(interval), source_(std::move(source)) {
  const core::SignalsBlocked blocked;
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Poller::~Poller() {
  thread_.request_stop();
  thread_.join();
}

void Poller::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (source_->keeps_asking() || !notice()) {
      ask_once(stop);
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, interval_, [] { return false; });
  }
}

void Poller::ask_once(const std::stop_token& stop) {
  const std::lock_guard asking(asking_);
  try {
    take(source_->ask(stop));
  } catch (const std::exception& error) {
    if (!stop.stop_requested()) {
      tell_failure(std::string(": ") + error.what());
    }
  } catch (...) {
    tell_failure("");
  }
}

void Poller::tell_failure(const std::string& what) {
  if (!std::exchange(failure_logged_, true)) {
    core::log::warning("notices from the {}: it failed, and is asked again{}", source_->name(), what);
  }
}

void Poller::take(const std::optional<Finding>& finding) {
  const std::lock_guard lock(mutex_);
  if (!finding) {
    id_.clear();
    acknowledged_.clear();
    return;
  }
  const bool is_new = finding->id.empty() || finding->id != id_;
  id_ = finding->id;
  if (finding->is_hint) {
    hint_ = is_new ? std::optional(finding->message) : hint_;
    return;
  }
  if (!id_.empty() && id_ == acknowledged_) {
    return;
  }
  const auto now = Clock::now();
  const auto deadline = finding->time_left ? std::optional(core::later(now, *finding->time_left)) : std::nullopt;
  if (!notice_) {
    notice_ = LocalNotice{source_->name(), finding->message, now, deadline};
    any_ = true;
  } else if (deadline && (!notice_->deadline || *deadline < *notice_->deadline)) {
    notice_->deadline = deadline;
    notice_->message = finding->message;
  }
}

std::optional<LocalNotice> Poller::notice() const {
  const std::lock_guard lock(mutex_);
  return notice_;
}

std::optional<std::string> Poller::take_hint() {
  const std::lock_guard lock(mutex_);
  return std::exchange(hint_, std::nullopt);
}

void Poller::saved() {
  if (!notice()) {
    return;
  }
  const std::lock_guard asking(asking_);
  try {
    source_->saved();
  } catch (const std::exception& error) {
    core::log::warning("the {} could not be told that the state is saved: {}", source_->name(), error.what());
  }
}

void Poller::acknowledge() {
  const std::lock_guard lock(mutex_);
  if (notice_) {
    acknowledged_ = id_;
  }
  notice_.reset();
  any_ = false;
}

}  // namespace reprieve::termination
