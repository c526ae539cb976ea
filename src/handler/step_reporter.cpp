// SPDX-License-Identifier: BSD-3-Clause
#include "handler/step_reporter.hpp"

#include "handler/run_log.hpp"

namespace reprieve::handler {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kDrillInterval = 100ms;

}  // namespace

void StepReporter::tell(std::uint64_t run_calls, std::chrono::nanoseconds step_time) noexcept {
  const auto now = Clock::now();
  if (now < next_) {
    return;
  }
  next_ = now + (for_drill_ ? Clock::duration(kDrillInterval) : news_interval(now - begin_));
  try {
    log_.step(run_calls, step_time, for_drill_);
  } catch (...) {
    // The step itself must not fail for it.
  }
}

}  // namespace reprieve::handler
