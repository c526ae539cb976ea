// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Several writes to one file under way at a time. No MPI, no HDF5.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "storage/bytes/posix_file.hpp"

namespace reprieve::storage {

/// Memory on its way to the file; it must stay as it is until `wait` has returned its tag.
struct PendingWrite {
  std::span<const std::byte> bytes;
  std::uint64_t offset = 0;
  std::size_t tag = 0;
};

inline constexpr std::size_t kMaxPendingWrites = 5;

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

/// Writes by threads that call pwrite.
class WriteQueue {
 public:
  /// Starts four threads, or as many as the system has left (ulimit -u, the pids limit of a control group).
  /// @return nothing if there is none
  /// @param file  must outlive the queue
  [[nodiscard]] static std::unique_ptr<WriteQueue> start(const PosixFile& file);
  /// Waits for the writes under way.
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  /// Begins a write. At most `kMaxPendingWrites` may be under way.
  void submit(const PendingWrite& write);
  /// Waits until one of the writes under way is done, and returns its tag. @throws StorageError if it failed
  std::size_t wait();

 private:
  /// Enough to keep one device busy; more would only wait for each other.
  static constexpr unsigned kThreads = 4;

  struct Done {
    std::size_t tag = 0;
    std::exception_ptr error;
  };

  explicit WriteQueue(const PosixFile& file);
  void work();

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

}  // namespace reprieve::storage
