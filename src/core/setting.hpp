// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Settings as a table: one row says how a setting is called, what it may be and where it lives. Reading JSON and the
/// environment, writing JSON and the check of values set in code all go through the rows, and so does the test of the
/// schema: they cannot come to differ.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprieve::core {

using Json = nlohmann::json;

/// What a setting may be.
struct Rule {
  enum class Kind { flag, whole_number, number, text, choice, list_of_choices };
  Kind kind = Kind::text;
  double min = 0;                           ///< numbers
  double max = 0;                           ///< numbers
  std::vector<std::int64_t> excluded = {};  ///< whole numbers
  std::vector<std::int64_t> also = {};      ///< whole numbers out of the range that are allowed all the same
  std::vector<std::string> choices = {};    ///< choice, list_of_choices
  std::string pattern = {};                 ///< text: a regular expression; empty: anything
  std::string pattern_meaning = {};         ///< the pattern in words
  std::string open = {};                    ///< may be left open (null in JSON), and what that means; empty: it may not
};

/// Whether @p value is of the right type and in range.
bool permits(const Rule& rule, const Json& value);
/// What is allowed, in words: "a whole number from 2 to 125, but not 110".
std::string allowed(const Rule& rule);
/// The value that a text (of an environment variable) stands for under the rule.
Json value_from_text(const Rule& rule, const std::string& text);

/// One setting of `Options`.
template <class Options>
struct Setting {
  std::string key;      ///< with its section: "termination.grace_period_s"
  std::string meaning;  ///< for people, in the schema
  Rule rule;
  std::function<Json(const Options&)> get;
  std::function<void(Options&, const Json&)> set;  ///< after the rule permitted the value
  bool from_environment = true;                    ///< may be set from outside of the program
  bool same_on_all_ranks = true;                   ///< ranks that were given different values would act differently
};

/// @p row as one that the program alone decides.
template <class Options>
Setting<Options> only_in_code(Setting<Options> row) {
  row.from_environment = false;
  return row;
}

/// @p row as one that each rank may have a value of its own for.
template <class Options>
Setting<Options> own_for_each_rank(Setting<Options> row) {
  row.same_on_all_ranks = false;
  return row;
}

template <class Options>
using Table = std::vector<Setting<Options>>;

struct Range {
  double min = 0;
  double max = 0;
};

template <class T>
T value_in(const T&);
template <class T>
T value_in(const std::optional<T>&);
/// What a member holds, or, of one that may be left open, what it holds if it is not.
template <class Member>
using ValueOf = decltype(value_in(std::declval<Member>()));

/// @param to_json  of the value @param from_json  after the rule permitted it
template <class Options, class Member, class ToJson, class FromJson>
Setting<Options> make_row(std::string key, std::string meaning, Rule rule, Member Options::*member, ToJson to_json,
                          FromJson from_json) {
  constexpr bool may_be_open = !std::is_same_v<Member, ValueOf<Member>>;
  const auto get = [member, to_json](const Options& options) -> Json {
    if constexpr (may_be_open) {
      return options.*member ? to_json(*(options.*member)) : Json();
    } else {
      return to_json(options.*member);
    }
  };
  const auto set = [member, from_json](Options& options, const Json& value) {
    if constexpr (may_be_open) {
      if (value.is_null()) {
        (options.*member).reset();
        return;
      }
    }
    options.*member = from_json(value);
  };
  return {std::move(key), std::move(meaning), std::move(rule), get, set};
}

/// @p row, whose member is a `std::optional`, as one that may be left open. @param open  what is done then
template <class Options>
Setting<Options> left_open(Setting<Options> row, std::string open) {
  row.rule.open = std::move(open);
  return row;
}

inline constexpr auto kToJson = [](const auto& value) { return Json(value); };
template <class T>
inline constexpr auto kFromJson = [](const Json& value) { return value.get<T>(); };

template <class Options, class Member>
Setting<Options> flag(std::string key, Member Options::*member, std::string meaning) {
  return make_row(std::move(key), std::move(meaning), Rule{.kind = Rule::Kind::flag}, member, kToJson, kFromJson<bool>);
}

template <class Options, class Member>
Setting<Options> whole_number(std::string key, Member Options::*member, Range range, std::string meaning,
                              std::vector<std::int64_t> excluded = {}, std::vector<std::int64_t> also = {}) {
  Rule rule{.kind = Rule::Kind::whole_number,
            .min = range.min,
            .max = range.max,
            .excluded = std::move(excluded),
            .also = std::move(also)};
  return make_row(std::move(key), std::move(meaning), std::move(rule), member, kToJson, kFromJson<ValueOf<Member>>);
}

/// Any text, or one that matches @p pattern, which @p pattern_meaning puts into words.
template <class Options, class Member>
Setting<Options> text(std::string key, Member Options::*member, std::string meaning, std::string pattern = {},
                      std::string pattern_meaning = {}) {
  Rule rule{.kind = Rule::Kind::text, .pattern = std::move(pattern), .pattern_meaning = std::move(pattern_meaning)};
  return make_row(std::move(key), std::move(meaning), std::move(rule), member, kToJson, kFromJson<std::string>);
}

/// A duration in units of `Unit` (std::milli for keys that end in _ms, std::ratio<1> for _s). Fractions are allowed
/// where the member is finer than the unit; what is more than nothing stays more than nothing.
template <class Unit, class Options, class Member>
Setting<Options> duration(std::string key, Member Options::*member, Range range, std::string meaning) {
  using Duration = ValueOf<Member>;
  using InUnits = std::chrono::duration<double, Unit>;
  constexpr bool whole = std::ratio_greater_equal_v<typename Duration::period, Unit>;
  const auto to_json = [](Duration duration) {
    const double value = InUnits(duration).count();
    return whole || value == std::floor(value) ? Json(std::llround(value)) : Json(value);
  };
  const auto from_json = [](const Json& value) {
    const InUnits wanted(value.get<double>());
    const Duration found(std::llround(std::chrono::duration<double, typename Duration::period>(wanted).count()));
    return wanted.count() > 0 ? std::max(found, Duration(1)) : found;
  };
  const Rule rule{.kind = whole ? Rule::Kind::whole_number : Rule::Kind::number, .min = range.min, .max = range.max};
  return make_row(std::move(key), std::move(meaning), rule, member, to_json, from_json);
}

template <class T>
using Names = std::vector<std::pair<std::string, T>>;

/// The name of @p value, or the bare value if it has none: no rule permits that.
template <class T>
Json name_of(const Names<T>& names, const T& value) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.second == value; });
  if (found != names.end()) {
    return found->first;
  }
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::int64_t>(value);
  } else {
    return value;
  }
}

template <class T>
T named(const Names<T>& names, const Json& name) {
  const auto text = name.get<std::string>();
  return std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.first == text; })->second;
}

template <class T>
std::vector<std::string> only_names(const Names<T>& names) {
  std::vector<std::string> result;
  for (const auto& entry : names) {
    result.push_back(entry.first);
  }
  return result;
}

/// One of a set of names.
template <class Options, class Member>
Setting<Options> choice(std::string key, Member Options::*member, Names<ValueOf<Member>> names, std::string meaning) {
  return make_row(
      std::move(key), std::move(meaning), Rule{.kind = Rule::Kind::choice, .choices = only_names(names)}, member,
      [names](const auto& value) { return name_of(names, value); },
      [names](const Json& name) { return named(names, name); });
}

/// Any number of a set of names.
template <class Options, class Member>
Setting<Options> list_of_choices(std::string key, Member Options::*member,
                                 Names<typename ValueOf<Member>::value_type> names, std::string meaning) {
  const auto to_json = [names](const auto& values) {
    Json list = Json::array();
    for (const auto& value : values) {
      list.push_back(name_of(names, value));
    }
    return list;
  };
  const auto from_json = [names](const Json& list) {
    ValueOf<Member> values;
    for (const auto& name : list) {
      values.push_back(named(names, name));
    }
    return values;
  };
  return make_row(std::move(key), std::move(meaning),
                  Rule{.kind = Rule::Kind::list_of_choices, .choices = only_names(names)}, member, to_json, from_json);
}

/// The rows of @p inner as rows of the structure that holds it, under the section @p name, or none.
template <class Outer, class Inner>
void append_section(Table<Outer>& table, const std::string& name, Inner Outer::*member, const Table<Inner>& inner) {
  for (const auto& row : inner) {
    table.push_back({name.empty() ? row.key : name + "." + row.key, row.meaning, row.rule,
                     [member, get = row.get](const Outer& options) { return get(options.*member); },
                     [member, set = row.set](Outer& options, const Json& value) { set(options.*member, value); },
                     row.from_environment, row.same_on_all_ranks});
  }
}

/// The known key that @p wanted probably stands for: spelt almost the same, or the same in another section.
std::optional<std::string> nearest(const std::string& wanted, const std::vector<std::string>& known);

/// Problems of several settings, reported all at once.
class Problems {
 public:
  void add(const std::string& where, const std::string& problem);
  /// Adds a problem unless the rule permits the value. Returns whether it does.
  bool check(const std::string& where, const Rule& rule, const Json& value);
  /// Adds that there is no setting @p where, with the nearest of @p all, or else with @p siblings, which are allowed.
  void add_unknown(const std::string& where, const std::vector<std::string>& siblings,
                   const std::vector<std::string>& all);
  /// @throws ConfigError with a line for each problem, if there is any
  void throw_if_any() const;

 private:
  std::string lines_;
};

template <class Options>
std::vector<std::string> keys_of(const Table<Options>& table) {
  std::vector<std::string> keys;
  for (const auto& row : table) {
    keys.push_back(row.key);
  }
  return keys;
}

/// Checks options that were made in code. @throws ConfigError
template <class Options>
void check_all(const Table<Options>& table, const Options& options) {
  Problems problems;
  for (const auto& row : table) {
    problems.check(row.key, row.rule, row.get(options));
  }
  problems.throw_if_any();
}

}  // namespace reprieve::core
