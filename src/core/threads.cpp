// SPDX-License-Identifier: BSD-3-Clause
#include "core/threads.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>

#include "core/log.hpp"

namespace reprieve::core {

namespace {

using Clock = std::chrono::steady_clock;

/// A rank that is bound to a core would share it with the thread, and be slowed down by it, while others are idle. The
/// kernel leaves out what the job may not use; where it refuses, the thread stays where the rank is.
void leave_the_ranks_core() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    CPU_SET(cpu, &all);
  }
  pthread_setaffinity_np(pthread_self(), sizeof all, &all);
}

[[noreturn]] void give_up(const std::string& message) {
  // Straight to the descriptor: the thread that hangs may hold the locks of any stream. If stderr is gone, abort
  // anyway.
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  std::abort();
}

}  // namespace

/// Outlives the task if the work does.
struct BackgroundTask::Shared {
  std::function<void()> work;
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::condition_variable ended;
  Outcome outcome;
  Clock::duration duration{};

  Outcome run() {
    Outcome of_work = capture(work);
    work = nullptr;  // what it owns is released before its end is reported
    return of_work;
  }

  void end(Outcome of_work, Clock::duration took) {
    const std::lock_guard lock(mutex);
    outcome = std::move(of_work);
    duration = took;
    done = true;
    ended.notify_all();
  }
};

BackgroundTask::BackgroundTask(std::function<void()> work) : shared_(std::make_shared<Shared>()) {
  shared_->work = std::move(work);
  try {
    const SignalsBlocked blocked;
    thread_ = std::thread([shared = shared_] {
      leave_the_ranks_core();
      const auto start = Clock::now();
      Outcome outcome = shared->run();
      shared->end(std::move(outcome), Clock::now() - start);
    });
    return;
  } catch (const std::system_error& error) {
    log::warning("no thread for work in the background ({}): it is done at once", error.what());
  } catch (const std::bad_alloc&) {
    log::warning("no memory for a thread: the work in the background is done at once");
  }
  shared_->end(shared_->run(), {});
}

BackgroundTask::~BackgroundTask() {
  if (!thread_.joinable()) {
    return;
  }
  if (done()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool BackgroundTask::done() const noexcept { return shared_->done; }

bool BackgroundTask::wait_for(std::chrono::milliseconds limit) const {
  constexpr std::chrono::milliseconds kPoll{500};
  std::unique_lock lock(shared_->mutex);
  const auto is_done = [this] { return shared_->done.load(); };
  RunningTime waited;
  for (auto left = limit; left.count() > 0 && !is_done();) {
    static_cast<void>(shared_->ended.wait_for(lock, std::min(left, kPoll), is_done));
    left = limit - std::chrono::duration_cast<std::chrono::milliseconds>(waited.elapsed());
  }
  return is_done();
}

Outcome BackgroundTask::outcome() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->outcome;
}

Clock::duration BackgroundTask::duration() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->duration;
}

Watchdog::Watchdog(std::string who, std::chrono::milliseconds limit)
    : Watchdog(limit, [who = std::move(who), limit](const std::string& stage) {
        give_up("reprieve: " + who + ": no answer from '" + stage + "' for " + std::to_string(limit.count()) +
                " ms; aborting, because a hanging MPI-IO call cannot be left in any other way\n");
      }) {}

Watchdog::Watchdog(std::chrono::milliseconds limit, std::function<void(const std::string& stage)> end)
    : limit_(limit), end_(std::move(end)), deadline_(std::chrono::steady_clock::now() + limit) {
  const SignalsBlocked blocked;  // inherited by the thread
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void Watchdog::enter(std::string stage) {
  const std::lock_guard lock(mutex_);
  stage_ = std::move(stage);
  deadline_ = std::chrono::steady_clock::now() + limit_;
}

void Watchdog::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto deadline = deadline_;
    stopped_.wait_until(lock, stop, deadline, [] { return false; });
    if (!stop.stop_requested() && std::chrono::steady_clock::now() >= deadline_) {
      end_(stage_);
    }
  }
}

}  // namespace reprieve::core
