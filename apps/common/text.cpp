// SPDX-License-Identifier: BSD-3-Clause
#include "common/text.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace apps {

std::string fixed(double value, int decimals) {
  std::ostringstream text;
  text.setf(std::ios::fixed);
  text.precision(decimals);
  text << value;
  return text.str();
}

std::string scientific(double value) {
  std::ostringstream text;
  text.setf(std::ios::scientific);
  text.precision(3);
  text << value;
  return text.str();
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

std::string ranks_text(int count) { return std::to_string(count) + (count == 1 ? " rank" : " ranks"); }

std::string format_duration(std::chrono::duration<double> duration) {
  constexpr double kTenthsMatter = 9.95;
  if (duration.count() < kTenthsMatter) {
    return fixed(duration.count(), 1) + " s";
  }
  const auto total = static_cast<std::int64_t>(std::llround(duration.count()));
  const std::int64_t hours = total / 3600;
  const std::int64_t minutes = total / 60 % 60;
  const std::int64_t seconds = total % 60;
  const auto two = [](std::int64_t value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  if (hours > 0) {
    return std::to_string(hours) + ":" + two(minutes) + ":" + two(seconds);
  }
  return minutes > 0 ? std::to_string(minutes) + ":" + two(seconds) : std::to_string(seconds) + " s";
}

std::string to_hex(std::uint64_t digest) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(digest));
  return text.data();
}

}  // namespace apps
