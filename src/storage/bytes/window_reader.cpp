// SPDX-License-Identifier: BSD-3-Clause
#include "storage/bytes/window_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/interrupted.hpp"

namespace reprieve::storage {

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

}  // namespace reprieve::storage
