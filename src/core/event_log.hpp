// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The event log: one JSON object per line, appended to `<checkpoint directory>/events.jsonl` by rank 0.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/directory.hpp"
#include "core/events.hpp"

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
  EventLog(EventLog&& other) noexcept = default;
  EventLog& operator=(EventLog&& other) noexcept = default;

  /// Writes the line, with the time of now.
  void write(const Event& event);

 private:
  void report_failure(const std::string& problem);

  Descriptor descriptor_;
  bool failed_ = false;  ///< a failure was logged
  bool torn_ = false;    ///< the file ends in the middle of a line
  std::filesystem::path file_;
};

// Reading the event log that EventLog writes.

/// More of a log is not read, so that a broken one takes no memory without end: some hundred years of one run.
inline constexpr std::size_t kLongestLog = std::size_t{256} << 20;

/// The events of a log, oldest first. Lines that are not JSON objects (cut by a crash, or foreign) are passed over, and
/// so is what lies more than @p tail_bytes before the end of the file. Empty if the file does not exist or cannot be
/// read.
std::vector<LoggedEvent> read_events(const std::filesystem::path& file, std::size_t tail_bytes = std::size_t{1} << 20);

/// A time as the events have it ("2026-03-01T12:00:00.000000Z"): later ones are greater as texts too.
std::string event_time(std::chrono::system_clock::time_point time);

/// The time that a text in UTC stands for, to the second; nothing if it is none. @param format  for strptime; a
/// fraction of a second may follow @param end  of the text
std::optional<std::chrono::system_clock::time_point> utc_time(const std::string& text, const char* format,
                                                              std::string_view end);
/// "2026-03-01T12:00:00Z", with or without a fraction of a second; nothing for anything else.
std::optional<std::chrono::system_clock::time_point> time_of_event(const std::string& text);

}  // namespace reprieve::core
