// SPDX-License-Identifier: BSD-3-Clause
#include "core/setting.hpp"

#include <fmt/format.h>

#include <numeric>
#include <regex>

#include "core/strict_json.hpp"
#include "reprieve/error.hpp"

namespace reprieve::core {
namespace {

template <class T>
bool is_one_of(const std::vector<T>& list, const Json& value) {
  return std::find(list.begin(), list.end(), value.get<T>()) != list.end();
}

bool is_choice(const Rule& rule, const Json& value) { return value.is_string() && is_one_of(rule.choices, value); }

bool in_range(const Rule& rule, const Json& value) {
  const auto number = value.get<double>();
  return number >= rule.min && number <= rule.max;
}

/// std::regex calls itself for every character: a text of some 100 kB would use up the stack.
constexpr std::size_t kMaxMatchedBytes = 4096;

bool matches(const Rule& rule, const Json& value) {
  const auto& text = value.get_ref<const std::string&>();
  return rule.pattern.empty() || (text.size() <= kMaxMatchedBytes && std::regex_match(text, std::regex(rule.pattern)));
}

/// Without the ".0" and the exponent that whole numbers would get.
std::string format_number(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

std::string allowed_number(const Rule& rule, const char* what) {
  std::string text = fmt::format("{} from {} to {}", what, format_number(rule.min), format_number(rule.max));
  if (!rule.excluded.empty()) {
    text += fmt::format(", but not {}", fmt::join(rule.excluded, ", "));
  }
  if (!rule.also.empty()) {
    text += fmt::format("; or {}", fmt::join(rule.also, ", "));
  }
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start < text.size()) {
    const auto end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

/// Insertions, deletions and replacements that make one text of the other (Levenshtein).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string allowed_value(const Rule& rule) {
  switch (rule.kind) {
    case Rule::Kind::flag:
      return "true or false";
    case Rule::Kind::whole_number:
      return allowed_number(rule, "a whole number");
    case Rule::Kind::number:
      return allowed_number(rule, "a number");
    case Rule::Kind::text:
      return rule.pattern.empty() ? "a text" : rule.pattern_meaning;
    case Rule::Kind::choice:
      return fmt::format("one of \"{}\"", fmt::join(rule.choices, "\", \""));
    case Rule::Kind::list_of_choices:
      return fmt::format("a list of any of \"{}\"", fmt::join(rule.choices, "\", \""));
  }
  return "nothing";
}

}  // namespace

std::optional<std::string> nearest(const std::string& wanted, const std::vector<std::string>& known) {
  std::optional<std::string> best;
  std::size_t limit = std::clamp<std::size_t>(last_part(wanted).size() / 3, 1, 3);
  for (const auto& key : known) {
    const std::size_t steps = last_part(key) == last_part(wanted) ? 1 : distance(wanted, key);
    if (steps <= limit && (!best || steps < limit)) {
      limit = steps;
      best = key;
    }
  }
  return best;
}

bool permits(const Rule& rule, const Json& value) {
  if (value.is_null()) {
    return !rule.open.empty();
  }
  switch (rule.kind) {
    case Rule::Kind::flag:
      return value.is_boolean();
    case Rule::Kind::whole_number:
      return value.is_number_integer() &&
             ((in_range(rule, value) && !is_one_of(rule.excluded, value)) || is_one_of(rule.also, value));
    case Rule::Kind::number:
      return value.is_number() && in_range(rule, value);
    case Rule::Kind::text:
      return value.is_string() && matches(rule, value);
    case Rule::Kind::choice:
      return is_choice(rule, value);
    case Rule::Kind::list_of_choices:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [&](const Json& name) { return is_choice(rule, name); });
  }
  return false;
}

std::string allowed(const Rule& rule) {
  return allowed_value(rule) + (rule.open.empty() ? "" : "; or null: " + rule.open);
}

Json value_from_text(const Rule& rule, const std::string& text) {
  if (text == "null" && !rule.open.empty()) {
    return {};
  }
  if (rule.kind == Rule::Kind::text || rule.kind == Rule::Kind::choice) {
    return text;
  }
  if (rule.kind == Rule::Kind::list_of_choices) {
    return split(text, ',');
  }
  const Json value = Json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? value : Json(text);
}

void Problems::add(const std::string& where, const std::string& problem) {
  lines_ += (lines_.empty() ? "" : "\n") + where + ": " + problem;
}

bool Problems::check(const std::string& where, const Rule& rule, const Json& value) {
  const bool permitted = permits(rule, value);
  if (!permitted) {
    add(where, fmt::format("found {}; allowed: {}", shown(value), allowed(rule)));
  }
  return permitted;
}

void Problems::add_unknown(const std::string& where, const std::vector<std::string>& siblings,
                           const std::vector<std::string>& all) {
  const auto likely = nearest(where, all);
  add(where, likely ? fmt::format("unknown; did you mean {}?", *likely)
                    : fmt::format("unknown; allowed: {}", fmt::join(siblings, ", ")));
}

void Problems::throw_if_any() const {
  if (!lines_.empty()) {
    throw ConfigError(lines_);
  }
}

}  // namespace reprieve::core
