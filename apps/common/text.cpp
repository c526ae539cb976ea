// SPDX-License-Identifier: BSD-3-Clause
#include "common/text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace apps {

std::string ranks_text(int count) { return fmt::format("{} rank{}", count, count == 1 ? "" : "s"); }

std::string format_duration(std::chrono::duration<double> duration) {
  constexpr double kTenthsMatter = 9.95;
  if (duration.count() < kTenthsMatter) {
    return fmt::format("{:.1f} s", duration.count());
  }
  const auto total = std::llround(duration.count());
  const auto hours = total / 3600;
  const auto minutes = total / 60 % 60;
  if (hours > 0) {
    return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  }
  return minutes > 0 ? fmt::format("{}:{:02}", minutes, total % 60) : fmt::format("{} s", total);
}

}  // namespace apps
