// SPDX-License-Identifier: BSD-3-Clause
#include "storage/bytes/readers.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "core/process.hpp"
#include "core/threads.hpp"

namespace reprieve::storage {

namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{4} << 20U;
constexpr std::size_t kWindows = 4;
constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20U;

/// Smaller parts are mostly in the page cache when they are read: the kernel reads ahead itself.
constexpr std::size_t kLeastAhead = std::size_t{512} << 10U;

}  // namespace

/// The threads, and what they read: windows one after the other, as many as there is memory for.
class SequentialReader::Ahead {
 public:
  struct FreeWindow {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  /// A part of the file in memory.
  struct Window {
    std::unique_ptr<std::byte, FreeWindow> memory;
    std::uint64_t number = 0;
    std::uint64_t begin = 0;  ///< of its bytes in the file: in window `number`, at a page
    std::uint64_t size = 0;   ///< less than was asked for at the end of the file, or if reading failed
    bool is_ready = false;
    bool is_being_read = false;
  };

  /// A part of the file that begins and ends at pages.
  struct Pages {
    Pages(std::uint64_t first, std::uint64_t behind)
        : begin(first / kPage * kPage), end((behind + kPage - 1) / kPage * kPage) {}
    std::uint64_t begin;
    std::uint64_t end;

    friend bool operator==(const Pages&, const Pages&) = default;
  };

  explicit Ahead(const PosixFile& file) : file_(file), direct_(file.opened_again(O_DIRECT)) {
    for (Window& window : windows_) {
      window.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePageBytes, kWindowBytes)));
      if (!window.memory) {
        throw std::bad_alloc();
      }
      static_cast<void>(::madvise(window.memory.get(), kWindowBytes, MADV_HUGEPAGE));  // a hint
    }
    const core::SignalsBlocked blocked;
    threads_[0] = std::jthread([this](const std::stop_token& stop) { run(stop); });
    try {
      threads_[1] = std::jthread([this](const std::stop_token& stop) { run(stop); });
    } catch (const std::system_error&) {  // there is one, which is slower
    }
  }
  /// All of them at once: none begins another window while the first one ends.
  ~Ahead() {
    for (std::jthread& thread : threads_) {
      thread.request_stop();
    }
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  /// The window in which @p offset lies, which is read if it is not there; also those behind it are read from now on,
  /// as far as @p expected goes. Valid until the next call.
  const Window& at(std::uint64_t offset, const Pages& expected) {
    const std::uint64_t number = offset / kWindowBytes;
    if (used_ != nullptr && used_number_ == number && asked_ == expected) {
      return *used_;  // which the threads leave alone
    }
    std::unique_lock lock(mutex_);
    if (number < first_ || number > next_) {
      expected_ = Pages(0, 0);  // what has been begun is waited for, and nothing more begun
      changed_.wait(lock, [&] { return std::ranges::none_of(windows_, &Window::is_being_read); });
      next_ = number;
    }
    first_ = number;
    expected_ = expected;
    changed_.notify_all();
    Window& window = windows_[number % kWindows];
    changed_.wait(lock, [&] { return number < next_ && window.number == number && window.is_ready; });
    used_ = &window;
    used_number_ = number;
    asked_ = expected;
    return window;
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    const auto has_work = [&] {
      return next_ * kWindowBytes < expected_.end && next_ < first_ + kWindows &&
             !windows_[next_ % kWindows].is_being_read;
    };
    while (changed_.wait(lock, stop, has_work) && !stop.stop_requested()) {
      Window& window = windows_[next_ % kWindows];
      window.number = next_;
      window.begin = std::max(next_ * kWindowBytes, expected_.begin);
      const std::uint64_t end = std::min((next_ + 1) * kWindowBytes, expected_.end);
      ++next_;
      window.is_ready = false;
      window.is_being_read = true;
      lock.unlock();
      fill(window, end - std::min(window.begin, end));
      lock.lock();
      window.is_ready = true;
      window.is_being_read = false;
      changed_.notify_all();
    }
  }

  void fill(Window& window, std::uint64_t wanted) const noexcept {
    const bool is_direct = direct_.is_open() && !file_.seems_cached(window.begin, wanted / 2 + 1);
    const int descriptor = is_direct ? direct_.get() : file_.descriptor();
    window.size = 0;
    while (window.size < wanted) {
      const ssize_t got = core::uninterrupted([&] {
        return ::pread(descriptor, window.memory.get() + window.size, wanted - window.size,
                       static_cast<off_t>(window.begin + window.size));
      });
      if (got <= 0) {
        return;  // end of the file, or an error: who needs more reads by itself, and reports it
      }
      window.size += static_cast<std::uint64_t>(got);
    }
  }

  const PosixFile& file_;
  core::Descriptor direct_;
  std::array<Window, kWindows> windows_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t first_ = 0;  ///< the window that is used
  std::uint64_t next_ = 0;   ///< the one to be read next
  Pages expected_{0, 0};     ///< nothing else is read
  // Of the caller's thread: what it was given last.
  const Window* used_ = nullptr;
  std::uint64_t used_number_ = 0;
  Pages asked_{0, 0};
  /// One alone would leave the device without work between two reads. Last: they use the others.
  std::array<std::jthread, 2> threads_;
};

SequentialReader::SequentialReader(const PosixFile& file) : file_(file) {}
SequentialReader::~SequentialReader() = default;

void SequentialReader::expect(std::uint64_t begin, std::uint64_t end) noexcept {
  begin_ = begin;
  end_ = end;
}

template <class Use>
bool SequentialReader::for_each_piece(std::uint64_t offset, std::uint64_t size, Use&& use) {
  if (!works_ || offset < begin_ || offset + size > end_) {
    return false;
  }
  try {
    if (!ahead_) {
      ahead_ = std::make_unique<Ahead>(file_);
    }
  } catch (const std::exception&) {  // no memory, or no thread
    works_ = false;
    return false;
  }
  const Ahead::Pages expected(begin_, end_);
  while (size > 0) {
    const Ahead::Window& window = ahead_->at(offset, expected);
    const std::uint64_t part = std::min(size, (window.number + 1) * kWindowBytes - offset);
    if (offset < window.begin || offset + part > window.begin + window.size) {
      return false;
    }
    use(std::span<const std::byte>(window.memory.get() + (offset - window.begin), static_cast<std::size_t>(part)));
    offset += part;
    size -= part;
  }
  return true;
}

bool SequentialReader::read(std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest) {
  return for_each_piece(offset, to.size(), copying_to(to, digest));
}

bool SequentialReader::digest(std::uint64_t offset, std::uint64_t size, Xxh3Stream& digest) {
  return for_each_piece(offset, size, adding_to(digest));
}

std::span<const std::byte> SequentialReader::view(std::uint64_t offset, std::size_t size) {
  std::span<const std::byte> bytes;
  const bool is_in_one = size > 0 && offset / kWindowBytes == (offset + size - 1) / kWindowBytes;
  const bool works = is_in_one && for_each_piece(offset, size, [&](std::span<const std::byte> part) { bytes = part; });
  return works ? bytes : std::span<const std::byte>{};
}

void WindowReader::expect(std::uint64_t begin, std::uint64_t end) const noexcept {
  if (begin < end && !file_.seems_cached(begin, end - begin)) {
    // A hint.
    static_cast<void>(::posix_fadvise(file_.descriptor(), static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                                      POSIX_FADV_WILLNEED));
  }
}

std::span<const std::byte> WindowReader::at(std::uint64_t offset, std::size_t size) {
  const std::uint64_t before = std::exchange(asked_, offset + size);
  if (size == 0 || size > kMostBytes) {
    return {};
  }
  if (!holds(offset, size)) {
    if (offset < before || offset - before > kMostBetween) {
      window_ = kLeastWindow;
      return {};
    }
    window_ = std::max(std::min(2 * window_, kMostWindow), size);
    load(offset);
  }
  return holds(offset, size) ? std::span<const std::byte>(memory_.get() + (offset - begin_), size)
                             : std::span<const std::byte>{};
}

void WindowReader::load(std::uint64_t offset) {
  if (!memory_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(kMostWindow);
  }
  begin_ = offset;
  const ssize_t got = core::uninterrupted(
      [&] { return ::pread(file_.descriptor(), memory_.get(), window_, static_cast<off_t>(offset)); });
  end_ = offset + static_cast<std::uint64_t>(std::max<ssize_t>(got, 0));
}

bool FileReader::read(std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest) {
  if (to.size() >= kLeastAhead && !file_.seems_cached(offset, to.size()) && ahead_.read(to, offset, digest)) {
    return true;
  }
  if (digest != nullptr) {
    digest->reset();
  }
  return false;
}

bool FileReader::digest(std::uint64_t offset, std::uint64_t size, Xxh3Stream& digest) {
  if (size < kLeastAhead || !file_.seems_cached(offset, size)) {
    return ahead_.digest(offset, size, digest);
  }
  read_in_pieces(file_, offset, size, adding_to(digest));
  return true;
}

std::span<const std::byte> FileReader::view(std::uint64_t offset, std::size_t size) {
  const auto bytes = ahead_.view(offset, size);
  return bytes.empty() ? windows_.at(offset, size) : bytes;
}

}  // namespace reprieve::storage
