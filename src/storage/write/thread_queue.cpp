// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/log.hpp"
#include "core/signals_blocked.hpp"
#include "storage/write/write_queue.hpp"

namespace reprieve::storage {

namespace {

/// Enough to keep one device busy; more would only wait for each other.
constexpr unsigned kThreads = 4;

/// First in, first out, for at most `kMaxPendingWrites`: no memory is asked for while writes are under way.
template <class Element>
class ShortQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  void push(Element element) {
    if (size_ == elements_.size()) {
      throw Error(ErrorCode::internal, "too many writes under way");
    }
    elements_[(first_ + size_++) % elements_.size()] = std::move(element);
  }
  Element pop() noexcept {
    Element element = std::exchange(elements_[first_], Element{});
    first_ = (first_ + 1) % elements_.size();
    --size_;
    return element;
  }
  void clear() noexcept { size_ = 0; }

 private:
  std::array<Element, kMaxPendingWrites> elements_{};
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

class ThreadQueue final : public WriteQueue {
 public:
  /// Starts as many threads as there are to be had; `empty` tells if that is none.
  explicit ThreadQueue(const PosixFile& file) : file_(file) {
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

  [[nodiscard]] bool empty() const noexcept { return started_ == 0; }

  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.clear();
      closed_ = true;
    }
    work_to_do_.notify_all();
    threads_ = {};  // joins
  }

  void submit(const PendingWrite& write) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push(write);
    }
    work_to_do_.notify_one();
  }

  std::size_t wait() override {
    std::unique_lock lock(mutex_);
    work_done_.wait(lock, [this] { return !done_.empty(); });
    const Done done = done_.pop();
    if (done.error) {
      std::rethrow_exception(done.error);
    }
    return done.tag;
  }

 private:
  struct Done {
    std::size_t tag = 0;
    std::exception_ptr error;
  };

  void work() {
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

  const PosixFile& file_;
  std::mutex mutex_;
  std::condition_variable work_to_do_;
  std::condition_variable work_done_;
  ShortQueue<PendingWrite> waiting_;
  ShortQueue<Done> done_;
  bool closed_ = false;
  unsigned started_ = 0;
  std::array<std::optional<std::jthread>, kThreads> threads_;  ///< last: they use the others
};

}  // namespace

std::unique_ptr<WriteQueue> make_thread_queue(const PosixFile& file) {
  auto queue = std::make_unique<ThreadQueue>(file);
  return queue->empty() ? nullptr : std::move(queue);
}

}  // namespace reprieve::storage
