#include "core/background_task.hpp"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "core/signals_blocked.hpp"

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

}  // namespace

/// Outlives the task if the work does.
struct BackgroundTask::Shared {
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::condition_variable ended;
  Outcome outcome;
  Clock::duration duration{};
};

BackgroundTask::BackgroundTask(std::function<void()> work) : shared_(std::make_shared<Shared>()) {
  const SignalsBlocked blocked;
  thread_ = std::thread([shared = shared_, work = std::move(work)]() mutable {
    leave_the_ranks_core();
    const auto start = Clock::now();
    Outcome outcome = capture(work);
    work = nullptr;  // what it owns is released before its end is told
    const std::lock_guard lock(shared->mutex);
    shared->outcome = std::move(outcome);
    shared->duration = Clock::now() - start;
    shared->done = true;
    shared->ended.notify_all();
  });
}

BackgroundTask::~BackgroundTask() {
  if (done()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool BackgroundTask::done() const noexcept { return shared_->done; }

bool BackgroundTask::wait_for(std::chrono::milliseconds limit) const {
  std::unique_lock lock(shared_->mutex);
  return shared_->ended.wait_for(lock, limit, [this] { return shared_->done.load(); });
}

Outcome BackgroundTask::outcome() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->outcome;
}

Clock::duration BackgroundTask::duration() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->duration;
}

}  // namespace reprieve::core
