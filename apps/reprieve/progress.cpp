#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <utility>

#include "text.hpp"

namespace reprieve::tool {

namespace {
using Clock = std::chrono::steady_clock;
constexpr auto kDelay = std::chrono::milliseconds(500);
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr const char* kWipe = "\r\x1b[K";
}  // namespace

Progress::Progress(std::string label)
    : label_(std::move(label)), terminal_(::isatty(STDERR_FILENO) == 1), next_(Clock::now() + kDelay) {}

Progress::~Progress() {
  if (shown_) {
    std::cerr << kWipe << std::flush;
  }
}

void Progress::update(std::uint64_t done_bytes, std::uint64_t total_bytes) {
  if (!terminal_ || total_bytes == 0 || Clock::now() < next_) {
    return;
  }
  const double percent = 100.0 * static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
  std::cerr << kWipe
            << fmt::format("{}  {:.0f} %  ({} of {})", label_, percent, human_size(done_bytes), human_size(total_bytes))
            << std::flush;
  shown_ = true;
  next_ = Clock::now() + kInterval;
}

}  // namespace reprieve::tool
