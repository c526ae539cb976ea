// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The library's logger: one line per important event, on stderr, with the rank.

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace reprieve::core::log {

/// The names of the levels, the quietest first.
inline constexpr std::array<std::string_view, 5> kLevelNames{"off", "error", "warning", "info", "debug"};

/// The logger behind the functions below, for its level.
spdlog::logger& logger();

/// Sets the rank that lines carry; -1 (the start value) shows none.
void set_rank(int rank);

/// Sets the level by its name, one of `kLevelNames`.
/// @throws ConfigError if the name is not one of these
void set_level(const std::string& name);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  logger().debug(format, std::forward<Args>(args)...);
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  logger().info(format, std::forward<Args>(args)...);
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  logger().warn(format, std::forward<Args>(args)...);
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  logger().error(format, std::forward<Args>(args)...);
}

}  // namespace reprieve::core::log
