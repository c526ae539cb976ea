// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Events as a log has them, from their JSON.

#include <nlohmann/json.hpp>
#include <vector>

#include "core/events.hpp"

namespace reprieve::test {

inline core::LoggedEvent logged(const nlohmann::json& line) { return core::event_from_json(line).value(); }

inline std::vector<core::LoggedEvent> log_of(const std::vector<nlohmann::json>& lines) {
  std::vector<core::LoggedEvent> events;
  for (const nlohmann::json& line : lines) {
    events.push_back(logged(line));
  }
  return events;
}

}  // namespace reprieve::test
