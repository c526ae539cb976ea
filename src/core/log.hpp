#pragma once

/// @file
/// The library's logger: one line per important event, on stderr, with the rank.

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <string>

namespace reprieve::core::log {

/// The logger behind the functions below, for its level.
spdlog::logger& logger();

/// Sets the rank that lines carry; -1 (the start value) shows none.
void set_rank(int rank);

/// Sets the level by its name: off, error, warning, info, debug.
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
