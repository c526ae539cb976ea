// SPDX-License-Identifier: BSD-3-Clause
#include "core/log.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

#include "core/error.hpp"

namespace reprieve::core::log {

namespace {

std::atomic<int> rank_shown{-1};
std::atomic<std::size_t> level_shown{3};  // of kLevelNames: info

std::string time_of_day() {
  const auto now = std::chrono::system_clock::now();
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", local.tm_hour, local.tm_min, local.tm_sec, milliseconds);
}

/// "[reprieve 12:00:01.123 rank 0 info] message"
std::string line_of(std::string_view importance, std::string_view message) {
  const int rank = rank_shown;
  const std::string who = rank < 0 ? "" : fmt::format("rank {} ", rank);
  return fmt::format("[reprieve {} {}{}] {}\n", time_of_day(), who, importance, message);
}

}  // namespace

void set_rank(int rank) { rank_shown = rank; }

void set_level(const std::string& name) {
  const auto found = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (found == kLevelNames.end()) {
    throw ConfigError(fmt::format("unknown log level \"{}\"; allowed: {}", name, fmt::join(kLevelNames, ", ")));
  }
  level_shown = static_cast<std::size_t>(found - kLevelNames.begin());
}

std::string_view level() { return kLevelNames.at(level_shown); }

void detail::write(Importance importance, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    const auto index = static_cast<std::size_t>(importance);
    if (index <= level_shown) {
      std::string message = fmt::vformat(format, args);
      if (importance <= Importance::warning) {
        message = with_message_code(std::move(message));
      }
      const std::string line = line_of(kLevelNames.at(index), message);
      std::fwrite(line.data(), 1, line.size(), stderr);  // not buffered: one call of the system for the whole line
    }
  } catch (...) {
    std::fputs("reprieve: a line of the log cannot be written\n", stderr);
  }
}

}  // namespace reprieve::core::log

namespace reprieve::core {

namespace {

/// Bytes of the character that @p text begins with; 0 if it is none, or one that steers terminals.
std::size_t length_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return first >= 0x20 && first != 0x7f ? 1 : 0;
  }
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  const bool is_begin = first >= 0xc2 && first <= 0xf4;
  const bool is_control = first == 0xc2 && byte(1) < 0xa0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) {
      return 0;
    }
  }
  return is_begin && !is_control ? length : 0;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = length_of_character(text);
    result += length > 0 ? std::string(text.substr(0, length))
                         : fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string seconds_text(double seconds) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits{{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  // 0.9995 s would be shown as 1e+03 ms.
  const auto* const unit = std::find_if(kUnits.begin(), kUnits.end() - 1, [&](const auto& each) {
    return seconds == 0 || std::abs(seconds) >= 0.9995 * each.first;
  });
  return fmt::format("{:.3g} {}", seconds / unit->first, unit->second);
}

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
