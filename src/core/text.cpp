// SPDX-License-Identifier: BSD-3-Clause
#include "core/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>

namespace reprieve::core {

std::string seconds_text(std::chrono::duration<double> duration) { return fmt::format("{:.3g} s", duration.count()); }

std::string duration_text(std::chrono::duration<double> duration) {
  const long total = std::lround(duration.count());
  if (total < 60) {
    return fmt::format("{} s", total);
  }
  if (total < 3600) {
    return fmt::format("{} min {} s", total / 60, total % 60);
  }
  return fmt::format("{} h {} min", total / 3600, total / 60 % 60);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.95 would be shown as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string transfer_text(std::uint64_t done_bytes, std::uint64_t total_bytes, std::chrono::duration<double> elapsed) {
  const double rate = elapsed.count() > 0 ? static_cast<double>(done_bytes) / elapsed.count() : 0;
  std::string text = fmt::format("{} of {}, {}/s", size_text(done_bytes), size_text(total_bytes),
                                 size_text(static_cast<std::uint64_t>(rate)));
  if (rate > 0 && done_bytes < total_bytes) {
    const std::chrono::duration<double> left(static_cast<double>(total_bytes - done_bytes) / rate);
    text += fmt::format(", {} left", duration_text(left));
  }
  return text;
}

std::string list_text(std::span<const std::uint64_t> numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

}  // namespace reprieve::core
