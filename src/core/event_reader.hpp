// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reading the event log that EventLog writes.

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace reprieve::core {

/// More of a log is not read, so that a broken one takes no memory without end: some hundred years of one run.
inline constexpr std::size_t kLongestLog = std::size_t{256} << 20;

/// The events of a log, oldest first. Lines that are not JSON objects (cut by a crash, or foreign) are passed over, and
/// so is what lies more than @p tail_bytes before the end of the file. Empty if the file does not exist or cannot be
/// read.
std::vector<nlohmann::json> read_events(const std::filesystem::path& file,
                                        std::size_t tail_bytes = std::size_t{1} << 20);

/// A time as the events have it ("2026-03-01T12:00:00.000000Z"): later ones are greater as texts too.
std::string event_time(std::chrono::system_clock::time_point time);

/// The time that such a text stands for, to the second; nothing if it is none.
std::optional<std::chrono::system_clock::time_point> time_of_event(const std::string& text);

}  // namespace reprieve::core
