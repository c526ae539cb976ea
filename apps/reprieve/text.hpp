// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What people read: sizes, ages, and shapes. And what programs read: JSON.

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "common/table.hpp"
#include "reprieve/checkpoint_manager.hpp"

namespace reprieve::tool {

using apps::Table;
using Json = nlohmann::ordered_json;

/// Time since @p time, in its two greatest units: "8 s", "3 min", "2 h 5 min", "4 d 1 h".
std::string human_age(std::chrono::system_clock::time_point time);

/// UTC, ISO 8601, to the second: "2026-03-01T12:00:00Z".
std::string utc_time(std::chrono::system_clock::time_point time);

/// "[3, 4]"; "scalar" if there are no dimensions.
std::string shape_text(const Extents& shape);

/// "preemption: signal SIGTERM on rank 2 (node17)".
std::string reason_text(const SaveReason& reason);

/// @p text on one line, and without the characters that would steer a terminal: they come from files.
std::string printable(const std::string& text);

/// The first line of a message, for where the rest was printed already or would be too much.
std::string first_line(const std::string& text);

/// @p text with lines of at most @p width characters, where words allow it. What goes on in the next line stands below
/// the text of its line: in a list of options, below the descriptions.
std::string wrapped(const std::string& text, std::size_t width);

/// @p text with bytes that are not UTF-8 replaced.
std::string valid_utf8(const std::string& text);

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

}  // namespace reprieve::tool
