// SPDX-License-Identifier: BSD-3-Clause
#include "core/strict_json.hpp"

#include <fmt/format.h>

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

/// The parser's message without its own error number.
std::string reason_of(const nlohmann::json::parse_error& error) {
  const std::string message = error.what();
  const auto start = message.find("] ");
  return start == std::string::npos ? message : message.substr(start + 2);
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
    throw ConfigError("not valid JSON: " + reason_of(error));
  }
  if (!document.is_object()) {
    throw ConfigError(fmt::format("found {}; allowed: an object, {{...}}", shown(document)));
  }
  return document;
}

}  // namespace reprieve::core
