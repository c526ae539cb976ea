// SPDX-License-Identifier: BSD-3-Clause
#include "core/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "reprieve/error.hpp"

namespace reprieve::core::log {
namespace {

/// "[reprieve 12:00:01.123 rank 0 info] message"
std::string pattern_for(int rank) {
  const std::string who = rank < 0 ? "" : fmt::format("rank {} ", rank);
  return "[%n %H:%M:%S.%e " + who + "%l] %v";
}

std::unique_ptr<spdlog::logger> make_logger() {
  auto logger = std::make_unique<spdlog::logger>("reprieve", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(pattern_for(-1));
  return logger;
}

spdlog::logger& logger() {
  // Never destroyed: destructors of static objects may still log.
  static spdlog::logger& instance = *make_logger().release();
  return instance;
}

spdlog::level::level_enum level_of(detail::Importance importance) {
  switch (importance) {
    case detail::Importance::debug:
      return spdlog::level::debug;
    case detail::Importance::info:
      return spdlog::level::info;
    case detail::Importance::warning:
      return spdlog::level::warn;
    case detail::Importance::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void set_rank(int rank) { logger().set_pattern(pattern_for(rank)); }

void set_level(const std::string& name) {
  if (std::find(kLevelNames.begin(), kLevelNames.end(), name) == kLevelNames.end()) {
    throw ConfigError(fmt::format("unknown log level \"{}\"; allowed: {}", name, fmt::join(kLevelNames, ", ")));
  }
  logger().set_level(spdlog::level::from_str(name));
}

std::string_view level() {
  const auto name = spdlog::level::to_string_view(logger().level());
  return {name.data(), name.size()};
}

void flush() { logger().flush(); }

void detail::write(Importance importance, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    const auto level = level_of(importance);
    if (logger().should_log(level)) {
      logger().log(level, fmt::vformat(format, args));
    }
  } catch (...) {
    std::fputs("reprieve: a line of the log cannot be written\n", stderr);
  }
}

}  // namespace reprieve::core::log
