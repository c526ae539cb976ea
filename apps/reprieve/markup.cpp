// SPDX-License-Identifier: BSD-3-Clause
#include "markup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/text.hpp"
#include "text.hpp"

namespace reprieve::tool {

std::string html(const std::string& text) {
  std::string escaped;
  for (const char c : printable(valid_utf8(text))) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) {
    text.resize(text.size() - 2);
  }
  return text == "-0" ? "0" : text;
}

std::string span_text(double seconds) {
  constexpr double kMinute = 60, kHours = 48 * 60 * kMinute;
  if (seconds < kMinute) {
    return core::seconds_text(std::chrono::duration<double>(seconds));
  }
  if (seconds < kHours) {
    return core::duration_text(std::chrono::duration<double>(seconds));
  }
  const auto hours = static_cast<long>(seconds / 3600);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string bytes_text(double bytes) {
  constexpr double kMost = 9e18;  // a log may tell more than a file can have
  return core::size_text(static_cast<std::uint64_t>(std::clamp(bytes, 0.0, kMost)));
}

std::string share_text(double part, double whole) {
  const double percent = whole > 0 ? 100 * part / whole : 0;
  return percent == 0 || percent >= 10 ? fmt::format("{:.0f} %", percent) : fmt::format("{:.1g} %", percent);
}

}  // namespace reprieve::tool
