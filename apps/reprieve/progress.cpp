// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "core/text.hpp"

namespace reprieve::tool {

namespace {
using Clock = std::chrono::steady_clock;
constexpr auto kDelay = std::chrono::milliseconds(500);
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr auto kLogInterval = std::chrono::seconds(10);
constexpr const char* kWipe = "\r\x1b[K";
}  // namespace

Progress::Progress(std::string label)
    : label_(std::move(label)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      begin_(Clock::now()),
      next_(begin_ + (terminal_ ? Clock::duration(kDelay) : kLogInterval)) {}

Progress::~Progress() {
  if (shown_) {
    std::cerr << kWipe << std::flush;
  }
}

void Progress::update(std::uint64_t done_bytes, std::uint64_t total_bytes) {
  const auto now = Clock::now();
  if (total_bytes == 0 || now < next_) {
    return;
  }
  const std::string text = label_ + ": " + core::transfer_text(done_bytes, total_bytes, now - begin_);
  if (terminal_) {
    std::cerr << kWipe << text << std::flush;
    shown_ = true;
    next_ = now + kInterval;
  } else {
    std::cerr << text << std::endl;
    next_ = now + kLogInterval;
  }
}

}  // namespace reprieve::tool
