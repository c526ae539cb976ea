// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reading JSON that people write: what the parser would pass over in silence is an error. And a guard for JSON from
/// files that anybody may have written.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace reprieve::core {

/// No document of this project nests nearly as deep. The parser would take any depth, but what prints or copies a
/// document calls itself for each level, until the stack is used up.
inline constexpr std::size_t kMaxJsonDepth = 64;

/// True if arrays and objects are nested deeper than `kMaxJsonDepth` in @p text, which need not be valid JSON.
[[nodiscard]] bool nested_too_deep(std::string_view text);

/// A value as messages show it: its beginning, if it is long.
[[nodiscard]] std::string shown(const nlohmann::json& value);

/// What is wrong with a document that a program wrote, in the words of this project.
[[nodiscard]] std::string reason_of(const nlohmann::json::exception& error);

/// Parses a JSON object. @throws ConfigError with line and column if it is not JSON; if it is not an object; if an
/// object has a key twice; if it is nested too deep
nlohmann::json parse_object(const std::string& text);

}  // namespace reprieve::core
