#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/signals_blocked.hpp"
#include "storage/write_queue.hpp"

namespace reprieve::storage {

namespace {

/// Enough to keep one device busy; more would only wait for each other.
constexpr unsigned kThreads = 4;

class ThreadQueue final : public WriteQueue {
 public:
  explicit ThreadQueue(const PosixFile& file) : file_(file) {
    const core::SignalsBlocked blocked;
    for (unsigned i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }

  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.clear();
      closed_ = true;
    }
    work_to_do_.notify_all();
    threads_.clear();  // joins
  }

  void submit(const PendingWrite& write) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(write);
    }
    work_to_do_.notify_one();
  }

  std::size_t wait() override {
    std::unique_lock lock(mutex_);
    work_done_.wait(lock, [this] { return !done_.empty(); });
    const Done done = std::exchange(done_.front(), {});
    done_.pop_front();
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
      const PendingWrite write = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      Done done{write.tag, nullptr};
      try {
        file_.write_all(write.bytes, write.offset);
      } catch (...) {
        done.error = std::current_exception();
      }
      lock.lock();
      done_.push_back(std::move(done));
      work_done_.notify_one();
    }
  }

  const PosixFile& file_;
  std::mutex mutex_;
  std::condition_variable work_to_do_;
  std::condition_variable work_done_;
  std::deque<PendingWrite> waiting_;
  std::deque<Done> done_;
  bool closed_ = false;
  std::vector<std::jthread> threads_;  ///< last: they use the others
};

}  // namespace

std::unique_ptr<WriteQueue> make_thread_queue(const PosixFile& file) { return std::make_unique<ThreadQueue>(file); }

}  // namespace reprieve::storage
