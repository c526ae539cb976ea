// SPDX-License-Identifier: BSD-3-Clause
#include "settings/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

#include "core/log.hpp"
#include "core/run_record.hpp"
#include "reprieve/version.hpp"
#include "settings/settings_table.hpp"

namespace reprieve {
namespace settings {
namespace {

constexpr std::string_view kPrefix = "REPRIEVE_";

/// What the supervisor and the tests of the library give to the programs that they start. They are no settings.
constexpr std::array<std::string_view, 5> kOtherVariables{core::kRunDirectoryVariable, core::kWatchesEndVariable,
                                                          "REPRIEVE_KILL_POINT", "REPRIEVE_KILL_RANK",
                                                          "REPRIEVE_KILL_MARK"};

/// Fields of the configuration that no text can hold, or that only the code around the handler can be right about.
constexpr std::array<std::string_view, 6> kFieldsOfCode{"RETURN_WHEN_SAVED",      "SAVE_FN", "EXIT_FN", "STEP_FN",
                                                        "TERMINATION_WATCHER_FN", "ABORT_FN"};

std::string in_upper_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

bool is_field_of_code(const std::string& name) {
  const std::string_view rest = std::string_view(name).substr(kPrefix.size());
  return std::any_of(kFieldsOfCode.begin(), kFieldsOfCode.end(), [&](std::string_view field) {
    return rest == field || rest == "TERMINATION_" + std::string(field);
  });
}

/// What people may write for a setting, without the prefix, and its variable: also without the section, or in another.
std::map<std::string, std::string> guesses(const core::Table<Settings>& table) {
  std::map<std::string, std::string> result;
  for (const auto& row : table) {
    const std::string name = in_upper_case(row.key.substr(row.key.find('.') + 1));
    for (const char* section : {"", "TERMINATION_", "CHECKPOINTS_", "LOG_"}) {
      result.emplace(section + name, variable_of(row.key));
    }
  }
  for (const auto& row : table) {
    result[variable_of(row.key).substr(kPrefix.size())] = variable_of(row.key);
  }
  return result;
}

/// The variables that @p name may stand for: one that is spelt almost the same, or those that begin with it.
std::optional<std::string> likely_variables(const std::string& name, const core::Table<Settings>& table) {
  const std::string rest = in_upper_case(name.substr(kPrefix.size()));
  const auto known = guesses(table);
  std::vector<std::string> names;
  std::set<std::string> longer;
  for (const auto& [guess, variable] : known) {
    names.push_back(guess);
    if (!rest.empty() && guess.starts_with(rest)) {
      longer.insert(variable);
    }
  }
  if (const auto near = core::nearest(rest, names)) {
    return known.at(*near);
  }
  return longer.empty() ? std::nullopt : std::optional(fmt::format("{}", fmt::join(longer, " or ")));
}

}  // namespace

std::string variable_of(const std::string& key) {
  std::string name = std::string(kPrefix) + in_upper_case(key);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

Variables own_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (text.starts_with(kPrefix) && equals != std::string_view::npos && equals + 1 < text.size()) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

FromEnvironment read(const Variables& variables) {
  const core::Table<Settings> table = all_settings();
  FromEnvironment result;
  core::Problems problems;
  for (const auto& [name, text] : variables) {
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&wanted = name](const auto& each) {  // clang 14 captures no part of a pair
                                    return variable_of(each.key) == wanted;
                                  });
    if (row != table.end() && row->from_environment) {
      core::Json value = core::value_from_text(row->rule, text);
      if (problems.check(name, row->rule, value)) {
        result.values[row->key] = std::move(value);
      }
    } else if (row != table.end() || is_field_of_code(name)) {
      problems.add(name, "only the program itself can set this, in its code or its settings file");
    } else if (std::find(kOtherVariables.begin(), kOtherVariables.end(), name) != kOtherVariables.end()) {
      continue;
    } else if (const auto likely = likely_variables(name, table)) {
      problems.add(name, "unknown; did you mean " + *likely + "?");
    } else {
      result.unknown.push_back(name);
    }
  }
  problems.throw_if_any();
  return result;
}

std::string unknown_variables_text(const std::vector<std::string>& unknown) {
  return unknown.empty() ? ""
                         : fmt::format("the environment sets {}, which this version of the library ({}) does not know",
                                       fmt::join(unknown, ", "), REPRIEVE_VERSION);
}

void apply(const core::Json& values, Settings& settings) {
  for (const auto& row : all_settings()) {
    if (const auto value = values.find(row.key); value != values.end()) {
      row.set(settings, *value);
    }
  }
}

}  // namespace settings

void apply_environment(Settings& settings) {
  const settings::FromEnvironment found = settings::read(settings::own_variables());
  if (!found.unknown.empty()) {
    core::log::warning("{}", settings::unknown_variables_text(found.unknown));
  }
  settings::apply(found.values, settings);
  settings.manager.read_environment = false;
}

}  // namespace reprieve
