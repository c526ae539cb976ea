#pragma once

/// @file
/// What people read: sizes, ages, shapes and tables. And what programs read: JSON.

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "reprieve/checkpoint_manager.hpp"

namespace reprieve::tool {

using Json = nlohmann::ordered_json;

/// "17 B", "1.5 KiB", "12 GiB".
std::string human_size(std::uint64_t bytes);

/// Time since @p time, in its two greatest units: "8 s", "3 min", "2 h 5 min", "4 d 1 h".
std::string human_age(std::chrono::system_clock::time_point time);

/// UTC, ISO 8601, to the second: "2026-03-01T12:00:00Z".
std::string utc_time(std::chrono::system_clock::time_point time);

/// "[3, 4]"; "scalar" if there are no dimensions.
std::string shape_text(const Extents& shape);

/// "preemption: signal SIGTERM on rank 2 (node17)".
std::string reason_text(const SaveReason& reason);

/// @p text without the characters that would steer a terminal: they come from files.
std::string printable(const std::string& text);

/// "1 variable", "2 variables".
std::string count_text(std::uint64_t count, const std::string& noun);

Json to_json(const SaveReason& reason);

/// The value, or null where there is none.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// Writes indented JSON; bytes that are not UTF-8 are replaced.
void print_json(std::ostream& out, const Json& json);

/// Rows of text under a header, in columns as wide as needed.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell per column.
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace reprieve::tool
