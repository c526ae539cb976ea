// SPDX-License-Identifier: BSD-3-Clause
#include "core/strict_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "reprieve/error.hpp"

namespace reprieve::core {
namespace {

/// Notices keys that come twice in one object; the parser itself would keep the last.
class DuplicateKeys {
 public:
  void see(nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == nlohmann::json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == nlohmann::json::parse_event_t::key && !open_.back().insert(value.get<std::string>()).second) {
      throw ConfigError(fmt::format("the key \"{}\" is there twice", value.get<std::string>()));
    }
  }

 private:
  std::vector<std::set<std::string>> open_;  ///< the keys of the objects that are not closed yet
};

/// Where the parser stopped in a text that people write.
std::string position_of(const nlohmann::json::parse_error& error, const std::string& text) {
  const std::size_t offset = std::min(text.size(), std::max<std::size_t>(error.byte, 1) - 1);
  const auto begin = text.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(offset);
  const auto line_begin = std::find(std::reverse_iterator(end), std::reverse_iterator(begin), '\n').base();
  return fmt::format("line {}, column {}", 1 + std::count(begin, end, '\n'), 1 + (end - line_begin));
}

}  // namespace

bool nested_too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      i += c == '\\' ? 1 : 0;  // what is escaped does not end the text
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        return true;
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kShown = 200;
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > kShown ? text.substr(0, kShown) + "..." : text;
}

std::string reason_of(const nlohmann::json::exception& error) {
  if (const auto* unread = dynamic_cast<const nlohmann::json::parse_error*>(&error)) {
    return fmt::format("no JSON at the byte {}", unread->byte);
  }
  constexpr int kKeyNotFound = 403;
  if (error.id != kKeyNotFound) {
    return "a value is of another type than it must be";
  }
  const std::string_view text = error.what();  // "key 'x' not found"
  const std::size_t begin = std::min(text.find('\''), text.size());
  return fmt::format("the key {} is missing", text.substr(begin, text.rfind('\'') + 1 - begin));
}

nlohmann::json parse_object(const std::string& text) {
  if (nested_too_deep(text)) {
    throw ConfigError(fmt::format("arrays and objects are nested deeper than {} levels", kMaxJsonDepth));
  }
  DuplicateKeys duplicates;
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(
        text, [&duplicates](int, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
          duplicates.see(event, value);
          return true;
        });
  } catch (const nlohmann::json::parse_error& error) {
    throw ConfigError("not valid JSON: " + position_of(error, text));
  }
  if (!document.is_object()) {
    throw ConfigError(fmt::format("found {}; allowed: an object, {{...}}", shown(document)));
  }
  return document;
}

}  // namespace reprieve::core
