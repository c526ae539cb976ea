// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/data_stream.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "core/log.hpp"
#include "core/threads.hpp"

namespace reprieve::storage {

namespace {

/// Offsets, sizes and memory of direct writes are multiples of it: a multiple of what any usual device asks for.
constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20U;
/// Of what is kept for the end.
constexpr std::size_t kMostEdges = 512;
constexpr std::size_t kMostEdgeBytes = std::size_t{1} << 20U;
/// With less to write in all, threads and buffers cost more than they gain.
constexpr std::uint64_t kLeastForAutomatic = std::uint64_t{4} << 20U;

constexpr std::uint64_t down(std::uint64_t offset) { return offset / kPage * kPage; }
constexpr std::uint64_t up(std::uint64_t offset) { return down(offset + kPage - 1); }
/// Buffers end at multiples of their size in the file: parallel file systems like writes that stay inside of a stripe.
constexpr std::uint64_t end_of_buffer(std::uint64_t base) {
  return (base / kStreamBufferBytes + 1) * kStreamBufferBytes;
}

}  // namespace

/// Several writes to one file under way at a time, by threads that call pwrite.
class DataStream::WriteQueue {
 public:
  /// Memory on its way to the file; it must stay as it is until `wait` has returned its buffer.
  struct Write {
    std::span<const std::byte> bytes;
    std::uint64_t offset = 0;
    std::size_t buffer = 0;
  };

  /// Starts four threads, or as many as the system has left (ulimit -u, the pids limit of a control group).
  /// @param file  must outlive the queue
  explicit WriteQueue(const PosixFile& file) : file_(file) {
    waiting_.reserve(kMaxPendingWrites);  // no memory is asked for while writes are under way
    done_.reserve(kMaxPendingWrites);
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
  /// Waits for the writes under way.
  ~WriteQueue() {
    {
      const std::lock_guard lock(mutex_);
      waiting_.clear();
      closed_ = true;
    }
    work_to_do_.notify_all();
    threads_ = {};  // joins
  }
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  [[nodiscard]] bool has_threads() const noexcept { return started_ > 0; }

  /// Writes that are over, but not waited for.
  [[nodiscard]] std::size_t done() {
    const std::lock_guard lock(mutex_);
    return done_.size();
  }

  /// Begins a write. At most `kMaxPendingWrites` may be under way.
  void submit(const Write& write) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(write);
    }
    work_to_do_.notify_one();
  }

  /// Waits until one of the writes under way is done, and returns its buffer. @throws StorageError if it failed
  std::size_t wait() {
    std::unique_lock lock(mutex_);
    work_done_.wait(lock, [this] { return !done_.empty(); });
    const Done done = take_first(done_);
    if (done.error) {
      std::rethrow_exception(done.error);
    }
    return done.buffer;
  }

 private:
  /// Enough to keep one device busy; more would only wait for each other.
  static constexpr unsigned kThreads = 4;

  struct Done {
    std::size_t buffer = 0;
    std::exception_ptr error;
  };

  template <class Element>
  static Element take_first(std::vector<Element>& elements) {
    Element first = std::move(elements.front());
    elements.erase(elements.begin());
    return first;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_to_do_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
      if (waiting_.empty()) {
        return;
      }
      const Write write = take_first(waiting_);
      lock.unlock();
      Done done{write.buffer, nullptr};
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
  std::vector<Write> waiting_;
  std::vector<Done> done_;
  bool closed_ = false;
  unsigned started_ = 0;
  std::array<std::optional<std::jthread>, kThreads> threads_;  ///< last: they use the others
};

void DataStream::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

/// Buffers between two saves: the system has to clear new ones, which takes longer than to fill them. Their pages are
/// the system's to take where memory is short (MADV_FREE), and are as new then. Any thread.
class DataStream::KeptBuffers {
 public:
  /// @throws std::bad_alloc
  static Buffer take() {
    {
      const std::lock_guard lock(mutex);
      if (count > 0) {
        return Buffer(kept.at(--count));
      }
    }
    Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(kHugePage, kStreamBufferBytes)));
    if (!buffer) {
      throw std::bad_alloc();
    }
    // A hint: the device is handed a few large pieces of memory instead of a thousand pages.
    static_cast<void>(::madvise(buffer.get(), kStreamBufferBytes, MADV_HUGEPAGE));
    return buffer;
  }

  static void keep(std::vector<Buffer> buffers) noexcept {
    const std::lock_guard lock(mutex);
    for (Buffer& buffer : buffers) {
      if (count < kept.size() && ::madvise(buffer.get(), kStreamBufferBytes, MADV_FREE) == 0) {
        kept.at(count++) = buffer.release();
      }
    }
  }

 private:
  // Without destructors: a thread that the end of the process does not wait for may still write.
  static inline std::mutex mutex;
  static inline std::array<std::byte*, kMaxPendingWrites> kept{};
  static inline std::size_t count = 0;
};

DataStream::DataStream(const PosixFile& file, FileIo io, std::uint64_t expected_bytes, std::uint64_t least_direct_bytes)
    : file_(file), least_direct_bytes_(least_direct_bytes), news_("writing " + file.path().string(), expected_bytes) {
  if (io == FileIo::page_cache ||
      (io == FileIo::automatic && (expected_bytes < kLeastForAutomatic || file.is_in_memory()))) {
    return;
  }
  direct_ = PosixFile::open_direct(file.address());
  if (!direct_) {
    return;
  }
  queue_ = std::make_unique<WriteQueue>(*direct_);
  if (!queue_->has_threads()) {  // none to be had: this one writes, through the page cache
    queue_.reset();
    direct_.reset();
  }
}

DataStream::~DataStream() {
  queue_.reset();  // no write uses the buffers now
  KeptBuffers::keep(std::move(buffers_));
}

void DataStream::write(std::span<const std::byte> bytes, std::uint64_t offset, Xxh3Stream* digest) {
  if (!queue_) {
    write_and_digest(bytes, offset, digest);
    return;
  }
  while (!bytes.empty()) {
    if (current_ && (offset != end_ || end_ == end_of_buffer(base_))) {
      flush();
      continue;
    }
    if (!current_) {
      begin_buffer(offset);
    }
    const auto part = bytes.first(std::min<std::uint64_t>(bytes.size(), end_of_buffer(base_) - end_));
    copy_and_digest(part, {buffers_[*current_].get() + (end_ - base_), part.size()}, digest);
    end_ += part.size();
    offset += part.size();
    bytes = bytes.subspan(part.size());
    news_.add(part.size());
  }
}

/// In pieces that stay in the processor's cache between the checksum and the copy.
void DataStream::write_and_digest(std::span<const std::byte> bytes, std::uint64_t offset, Xxh3Stream* digest) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(digest == nullptr ? bytes.size() : std::min(bytes.size(), kCachedBytes));
    if (digest != nullptr) {
      digest->update(piece);
    }
    file_.write_all(piece, offset);
    news_.add(piece.size());
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

void DataStream::begin_buffer(std::uint64_t offset) {
  if (free_.empty() && buffers_.size() < kMaxPendingWrites) {
    buffers_.push_back(KeptBuffers::take());
    free_.push_back(buffers_.size() - 1);
  }
  if (free_.empty()) {
    wait_for_one();
  }
  current_ = free_.back();
  free_.pop_back();
  base_ = down(offset);
  begin_ = end_ = offset;
}

/// The whole pages go directly, the rest through the page cache: another rank, or a neighbour, may own a part of those
/// pages. What is too small for a direct write waits for its turn there, as edges do, once there are direct writes.
void DataStream::flush() {
  const std::size_t buffer = *std::exchange(current_, std::nullopt);
  const std::span<const std::byte> memory(buffers_[buffer].get(), kStreamBufferBytes);
  const auto part = [&](std::uint64_t from, std::uint64_t to) { return memory.subspan(from - base_, to - from); };
  const std::uint64_t first = up(begin_);
  const std::uint64_t last = down(end_);
  if (last < first + least_direct_bytes_) {
    if (under_way_ > 0) {
      keep_edge(part(begin_, end_), begin_);
    } else {
      write_cached(part(begin_, end_), begin_);
    }
    free_.push_back(buffer);
    return;
  }
  keep_edge(part(begin_, first), begin_);
  keep_edge(part(last, end_), last);
  ++under_way_;
  queue_->submit({part(first, last), first, buffer});
}

void DataStream::keep_edge(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (!bytes.empty()) {
    edges_.push_back({offset, {bytes.begin(), bytes.end()}});
    edge_bytes_ += bytes.size();
  }
  if (edges_.size() >= kMostEdges || edge_bytes_ >= kMostEdgeBytes) {
    write_edges();
  }
}

void DataStream::write_edges() {
  for (const Edge& edge : edges_) {
    write_cached(edge.bytes, edge.offset);
  }
  edges_.clear();
  edge_bytes_ = 0;
}

void DataStream::write_cached(std::span<const std::byte> bytes, std::uint64_t offset) {
  file_.write_all(bytes, offset);
  cached_ |= !bytes.empty();
}

void DataStream::wait_for_one() {
  free_.push_back(queue_->wait());
  --under_way_;
}

/// All buffers but the one that is being filled.
bool DataStream::is_busy() const { return queue_ && under_way_ - queue_->done() + 1 >= kMaxPendingWrites; }

void DataStream::start_writeback() {
  if (current_) {
    flush();
  }
  if (std::exchange(cached_, false)) {
    file_.start_writeback();
  }
}

void DataStream::finish() {
  if (current_) {
    flush();
  }
  while (under_way_ > 0) {
    wait_for_one();
  }
  write_edges();
}

}  // namespace reprieve::storage
