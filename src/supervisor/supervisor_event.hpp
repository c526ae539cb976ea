// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a supervisor tells about, and the words for it. Pure.

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace reprieve::supervisor {

/// Something that happened, for people (text) and for programs (name and fields).
struct SupervisorEvent {
  std::string name;  ///< "start", "ready", "request", "notice_sent", "exit", "end", "restart", ...
  std::string text;
  nlohmann::json fields = nlohmann::json::object();
};

/// An event of the run's record as one of the supervisor's; nothing for those that only tools care about.
std::optional<SupervisorEvent> describe(const nlohmann::json& recorded);

}  // namespace reprieve::supervisor
