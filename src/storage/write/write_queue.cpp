// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/write_queue.hpp"

#include <new>
#include <system_error>

#include "core/log.hpp"
#include "core/signals_blocked.hpp"

namespace reprieve::storage {

std::unique_ptr<WriteQueue> WriteQueue::start(const PosixFile& file) {
  std::unique_ptr<WriteQueue> queue(new WriteQueue(file));
  return queue->started_ == 0 ? nullptr : std::move(queue);
}

WriteQueue::WriteQueue(const PosixFile& file) : file_(file) {
  const core::SignalsBlocked blocked;
  try {
    for (std::optional<std::jthread>& thread : threads_) {
      thread.emplace([this] { work(); });
      ++started_;
    }
  } catch (const std::system_error& error) {
    core::log::debug("{} of {} threads for writing: {}", started_, kThreads, error.what());
  } catch (const std::bad_alloc&) {
    core::log::debug("{} of {} threads for writing: out of memory", started_, kThreads);
  }
}

WriteQueue::~WriteQueue() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    closed_ = true;
  }
  work_to_do_.notify_all();
  threads_ = {};  // joins
}

void WriteQueue::submit(const PendingWrite& write) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push(write);
  }
  work_to_do_.notify_one();
}

std::size_t WriteQueue::wait() {
  std::unique_lock lock(mutex_);
  work_done_.wait(lock, [this] { return !done_.empty(); });
  const Done done = done_.pop();
  if (done.error) {
    std::rethrow_exception(done.error);
  }
  return done.tag;
}

void WriteQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_to_do_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (waiting_.empty()) {
      return;
    }
    const PendingWrite write = waiting_.pop();
    lock.unlock();
    Done done{write.tag, nullptr};
    try {
      file_.write_all(write.bytes, write.offset);
    } catch (...) {
      done.error = std::current_exception();
    }
    lock.lock();
    done_.push(std::move(done));
    work_done_.notify_one();
  }
}

}  // namespace reprieve::storage
