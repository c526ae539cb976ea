// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What stands in an event. Logs may be of another version, cut, or written by anybody: what is not of the expected
/// type is not there.

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/event_reader.hpp"

namespace reprieve::tool {

using LogEvent = nlohmann::json;

/// Thirty years: a time beyond it is none, but a broken log.
inline constexpr double kLongestTime = 1e9;

inline std::string text_in(const LogEvent& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

inline bool flag_in(const LogEvent& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_boolean() && found->get<bool>();
}

inline std::optional<double> number_in(const LogEvent& event, const char* key) {
  const auto found = event.find(key);
  const bool is_number = found != event.end() && found->is_number();
  return is_number && std::isfinite(found->get<double>()) ? std::optional(found->get<double>()) : std::nullopt;
}

inline std::optional<std::uint64_t> count_in(const LogEvent& event, const char* key) {
  const auto found = event.find(key);
  const bool is_count = found != event.end() && found->is_number_integer() &&
                        (found->is_number_unsigned() || found->get<std::int64_t>() >= 0);
  return is_count ? std::optional(found->get<std::uint64_t>()) : std::nullopt;
}

inline int small_number_in(const LogEvent& event, const char* key, int otherwise) {
  const double value = number_in(event, key).value_or(otherwise);
  return std::abs(value) < 1e9 ? static_cast<int>(value) : otherwise;
}

/// Nothing unless @p seconds is a time that somebody can have waited.
inline std::optional<double> plausible(std::optional<double> seconds) {
  return seconds && *seconds >= 0 && *seconds < kLongestTime ? seconds : std::nullopt;
}

/// Seconds since 1970, with the fraction.
inline std::optional<double> wall_clock_in(const LogEvent& event) {
  const std::string text = text_in(event, "time");
  const auto whole = core::time_of_event(text);
  if (!whole) {
    return std::nullopt;
  }
  double fraction = 0;
  if (const auto dot = text.find('.'); dot != std::string::npos) {
    std::from_chars(text.data() + dot, text.data() + text.size(), fraction);
  }
  return std::chrono::duration<double>(whole->time_since_epoch()).count() + fraction;
}

}  // namespace reprieve::tool
