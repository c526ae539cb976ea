// SPDX-License-Identifier: BSD-3-Clause
#include "core/event_reader.hpp"

#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/strict_json.hpp"

namespace reprieve::core {

std::vector<nlohmann::json> read_events(const std::filesystem::path& file, std::size_t tail_bytes) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    return {};  // a pipe, or a device, would never end
  }
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) {
    return {};
  }
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(0, stream.tellg()));
  const std::size_t start = size > tail_bytes ? size - tail_bytes : 0;
  stream.seekg(static_cast<std::streamoff>(start));
  std::vector<nlohmann::json> events;
  std::string line;
  if (start > 0) {
    std::getline(stream, line);  // most likely the rest of a line
  }
  while (std::getline(stream, line)) {
    if (nested_too_deep(line)) {
      continue;
    }
    auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.contains("event")) {
      events.push_back(std::move(event));
    }
  }
  return events;
}

std::string event_time(std::chrono::system_clock::time_point time) {
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(microseconds / 1'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, microseconds % 1'000'000);
}

std::optional<std::chrono::system_clock::time_point> time_of_event(const std::string& text) {
  std::tm parts{};
  const char* const rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  constexpr int kLastYear = 2200;  // later ones overflow a count of nanoseconds
  if (rest == nullptr || (*rest != '.' && *rest != 'Z') || parts.tm_year + 1900 > kLastYear) {
    return std::nullopt;
  }
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

}  // namespace reprieve::core
