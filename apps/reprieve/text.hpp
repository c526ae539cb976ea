// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What people read: sizes, ages, shapes, findings, and how far something is. And what programs read: JSON.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/table.hpp"
#include "core/log.hpp"
#include "reprieve/checkpoint_manager.hpp"

namespace reprieve::supervisor {

/// One thing that a drill or an examination found.
struct Finding {
  enum class Grade {
    good,
    warning,  ///< it survived; check it all the same
    problem,  ///< work would be lost
    unknown,  ///< the drill does not know
  };
  Grade grade = Grade::good;
  std::string id;        ///< for programs: "exit_code"
  std::string text;      ///< what was seen
  std::string advice{};  ///< what to do; empty if nothing
};

}  // namespace reprieve::supervisor

namespace reprieve::tool {

using apps::Table;
using core::count_text;
using Json = nlohmann::ordered_json;

/// Time since @p time, in its two greatest units: "8 s", "3 min", "2 h 5 min", "4 d 1 h".
std::string human_age(std::chrono::system_clock::time_point time);

/// UTC, ISO 8601, to the second: "2026-03-01T12:00:00Z".
std::string utc_time(std::chrono::system_clock::time_point time);

/// "[3, 4]"; "scalar" if there are no dimensions.
inline std::string shape_text(const Extents& shape) { return shape.empty() ? "scalar" : core::list_text(shape); }

/// "preemption: signal SIGTERM on rank 2 (node17)".
std::string reason_text(const SaveReason& reason);

/// @p text on one line, `core::escaped`: it comes from files. Names, which have one line, go there directly.
std::string printable(const std::string& text);

/// The first line of a message, for where the rest was printed already or would be too much.
std::string first_line(const std::string& text);

/// @p text with lines of at most @p width characters, where words allow it. What continues in the next line stands
/// below the text of its line: in a list of options, below the descriptions.
std::string wrapped(const std::string& text, std::size_t width);

Json to_json(const SaveReason& reason);

/// The value, or null where there is none. Times are UTC, durations seconds.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
inline Json or_null(const std::optional<std::chrono::system_clock::time_point>& time) {
  return time ? Json(utc_time(*time)) : Json();
}
inline Json or_null(const std::optional<std::chrono::duration<double>>& time) {
  return time ? Json(time->count()) : Json();
}

/// The name of a value of an enum. @param names  of all of them, in their order
template <class Enum>
const char* name_of(Enum value, std::initializer_list<const char*> names) {
  return std::data(names)[static_cast<std::size_t>(value)];
}

/// A list of what @p convert makes of each item.
template <class Items, class Convert>
Json list_json(const Items& items, Convert convert) {
  Json list = Json::array();
  for (const auto& item : items) {
    list.push_back(convert(item));
  }
  return list;
}

/// What @p text says of each item, with a separator in between.
template <class Items, class Text>
std::string joined(const Items& items, Text text, const char* separator = ", ") {
  std::vector<std::string> texts;
  std::ranges::transform(items, std::back_inserter(texts), text);
  return fmt::format("{}", fmt::join(texts, separator));
}

/// A table with these titles. A column whose title begins with '>', which is not shown, is aligned to the right.
Table table_of(const std::vector<std::string>& titles);

/// How much a word matters.
enum class Tone { good, warning, bad };
/// In its colour, if standard output is a terminal that shows colours, and the user wants them.
std::string toned(Tone tone, const std::string& text);
/// Neither of the two: as above.
void set_color(bool always, bool never);

/// The number at the top of all JSON: another one if a field changes its name or its meaning (JSON.md).
inline constexpr int kJsonVersion = 1;

/// Writes an object as JSON, with the version before it; bytes that are not UTF-8 are replaced.
/// @param indent  -1: all on one line
void print_json(std::ostream& out, const Json& json, int indent = 2);

/// What a command found, on standard output: as JSON if that is wanted, else as @p print writes it.
template <class Print>
void print_answer(bool wants_json, const Json& json, Print print) {
  if (wants_json) {
    print_json(std::cout, json);
  } else {
    print();
  }
}

/// How far a long operation is. Shows "label: 1.2 GiB of 2.9 GiB, 410.0 MiB/s, 4 s left" on standard error. On a
/// terminal in place, after half a second, and wiped at the end; elsewhere a line every ten seconds.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done_bytes, std::uint64_t total_bytes);

 private:
  std::string label_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point next_;
};

/// Each with what to do about it.
void print_findings(std::ostream& out, const std::vector<supervisor::Finding>& findings);

Json to_json(const std::vector<supervisor::Finding>& findings);

}  // namespace reprieve::tool
