// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/preemption_watcher.hpp"

#include <fmt/ranges.h>

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "core/log.hpp"
#include "core/signals_blocked.hpp"
#include "reprieve/error.hpp"
#include "supervisor/run_follower.hpp"
#include "termination/notice_board.hpp"

namespace reprieve {

namespace {

/// How often it is looked whether the processes have gone.
constexpr std::chrono::milliseconds kLookInterval{20};

}  // namespace

struct [[gnu::visibility("hidden")]] PreemptionWatcher::Impl {
  /// Looks at what the run has written until now. The mutex is held.
  void catch_up() {
    if (follower && !message) {
      message = follower->next_notice();
    }
  }

  void follow(const std::stop_token& stop, std::chrono::milliseconds interval) {
    std::unique_lock lock(mutex);
    while (!stop.stop_requested() && !message) {
      catch_up();
      if (!message) {
        wake.wait_for(lock, stop, interval, [this] { return message.has_value(); });
      }
    }
    const auto found = message;
    lock.unlock();
    tell(found);
  }

  void listen(const std::stop_token& stop, termination::NoticeBoard& board, std::size_t seen) {
    const auto posted = board.wait_for_more(seen, stop);
    {
      const std::lock_guard lock(mutex);
      message = posted;
    }
    tell(posted);
  }

  void tell(const std::optional<PreemptionMessage>& found) const {
    if (!found || !callback) {
      return;
    }
    try {
      callback(*found);
    } catch (const std::exception& error) {
      core::log::error("the callback of a PreemptionWatcher failed: {}", error.what());
    } catch (...) {
      core::log::error("the callback of a PreemptionWatcher failed");
    }
  }

  [[nodiscard]] std::vector<std::string> living() {
    const std::lock_guard lock(mutex);
    catch_up();
    return follower->living();
  }

  Callback callback;
  PlatformInfo platform;
  std::mutex mutex;  ///< guards what follows
  std::condition_variable_any wake;
  std::unique_ptr<supervisor::RunFollower> follower;  ///< outside of a job
  std::optional<PreemptionMessage> message;
  std::jthread thread;  ///< last: it uses the rest
};

// The public constructor of a watcher inside of a job comes here from the handler's layer.
PreemptionWatcher::PreemptionWatcher(std::shared_ptr<termination::NoticeBoard> board, bool preempted,
                                     PlatformInfo platform, Callback callback)
    : impl_(std::make_unique<Impl>()) {
  impl_->callback = std::move(callback);
  impl_->platform = std::move(platform);
  const std::size_t seen = board->count() - (preempted ? 1 : 0);
  const core::SignalsBlocked blocked;
  impl_->thread = std::jthread(
      [impl = impl_.get(), board, seen](const std::stop_token& stop) { impl->listen(stop, *board, seen); });
}

PreemptionWatcher::PreemptionWatcher(std::filesystem::path checkpoint_directory, Callback callback,
                                     std::chrono::milliseconds poll_interval)
    : impl_(std::make_unique<Impl>()) {
  impl_->callback = std::move(callback);
  impl_->platform = detect_platform();
  impl_->follower = std::make_unique<supervisor::RunFollower>(std::move(checkpoint_directory));
  const core::SignalsBlocked blocked;
  impl_->thread = std::jthread(
      [impl = impl_.get(), poll_interval](const std::stop_token& stop) { impl->follow(stop, poll_interval); });
}

PreemptionWatcher::~PreemptionWatcher() = default;

std::optional<PreemptionMessage> PreemptionWatcher::preemption_message() const {
  const std::lock_guard lock(impl_->mutex);
  impl_->catch_up();
  if (impl_->message) {
    impl_->wake.notify_all();
  }
  return impl_->message;
}

const PlatformInfo& PreemptionWatcher::platform() const noexcept { return impl_->platform; }

void PreemptionWatcher::block_until_worker_exit(std::chrono::milliseconds limit) const {
  if (!impl_->follower) {
    return;
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<std::string> living;
  while (!(living = impl_->living()).empty()) {
    if (std::chrono::steady_clock::now() >= end) {
      throw UnresponsiveError(fmt::format("the processes of the run have not ended within {} s: {}",
                                          std::chrono::duration<double>(limit).count(), fmt::join(living, ", ")),
                              {});
    }
    std::this_thread::sleep_for(kLookInterval);
  }
}

}  // namespace reprieve
