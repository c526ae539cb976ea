// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The event log: one JSON object per line, appended to `<checkpoint directory>/events.jsonl` by the chief.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace reprieve::core {

/// The name of the event log in a checkpoint directory.
inline constexpr const char* kEventLogName = "events.jsonl";

/// Appends events. Every line is one write(2) with O_APPEND, so lines of overlapping runs do not mix. A line that a
/// crash or a full disk cut short spoils no other: the next one starts on a line of its own. Events are for people and
/// tools: a failure to write one is logged once and not thrown.
class EventLog {
 public:
  /// Not yet open: records nothing.
  EventLog() = default;
  explicit EventLog(const std::filesystem::path& file);
  ~EventLog();
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&& other) noexcept;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// Adds `event`, `time` (UTC, ISO 8601 with microseconds) and `monotonic_s` to the fields (a JSON object) and writes
  /// the line.
  void record(const std::string& event, const nlohmann::json& fields);

 private:
  void report_failure(const std::string& problem);

  int descriptor_ = -1;
  bool failed_ = false;  ///< a failure was logged
  bool torn_ = false;    ///< the file ends in the middle of a line
  std::filesystem::path file_;
};

}  // namespace reprieve::core
