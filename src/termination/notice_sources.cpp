#include "termination/notice_sources.hpp"

#include <pthread.h>
#include <signal.h>  // NOLINT: pthread_sigmask is POSIX, not in <csignal>

#include "core/log.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::termination {

using Clock = std::chrono::steady_clock;

NoticeSources::NoticeSources(const TerminationConfig& config)
    : signals_(config.signals),
      grace_period_(config.grace_period),
      poll_interval_(config.poll_interval),
      watcher_fn_(config.termination_watcher_fn) {
  install_signal_handler(signals_);
  if (watcher_fn_) {
    // The thread inherits a full mask: the application's signals stay with the application's threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    const bool masked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    thread_ = std::thread([this] { watch(); });
    if (masked && pthread_sigmask(SIG_SETMASK, &before, nullptr) != 0) {
      core::log::error("cannot restore the signal mask");
    }
  }
}

NoticeSources::~NoticeSources() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void NoticeSources::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!watched_) {
      lock.unlock();
      ask_once();
      lock.lock();
    }
    wake_.wait_for(lock, poll_interval_, [this] { return stop_; });
  }
}

void NoticeSources::ask_once() {
  try {
    const WatchResult result = watcher_fn_();
    if (!result.notice) {
      return;
    }
    LocalNotice notice{"watcher function", result.message, Clock::now(), std::nullopt};
    if (result.time_left) {
      notice.deadline = notice.time + *result.time_left;
    }
    const std::lock_guard lock(mutex_);
    watched_ = std::move(notice);
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_logged_) {
      failure_logged_ = true;
      core::log::warning("the watcher function failed, and is asked again: {}", error.what());
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_logged_) {
      failure_logged_ = true;
      core::log::warning("the watcher function failed, and is asked again");
    }
  }
}

std::optional<LocalNotice> NoticeSources::signal_notice() const {
  const auto signal = pending_signal(signals_);
  if (!signal) {
    return std::nullopt;
  }
  std::string message = "sent by the kernel";
  if (signal->sender != 0) {
    message = signal->from_parent ? "sent by the launcher" : fmt::format("sent by process {}", signal->sender);
  }
  return LocalNotice{"signal " + signal_name(signal->signal), std::move(message), signal->time, std::nullopt};
}

std::optional<LocalNotice> NoticeSources::current() const {
  std::optional<LocalNotice> notice = signal_notice();
  {
    const std::lock_guard lock(mutex_);
    if (watched_ && (!notice || watched_->time < notice->time)) {
      notice = watched_;
    }
  }
  if (notice && !notice->deadline && grace_period_.count() > 0) {
    notice->deadline = notice->time + grace_period_;
  }
  return notice;
}

void NoticeSources::acknowledge() {
  acknowledge_signals(signals_);
  const std::lock_guard lock(mutex_);
  watched_.reset();
}

}  // namespace reprieve::termination
