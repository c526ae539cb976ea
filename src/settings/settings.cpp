// SPDX-License-Identifier: BSD-3-Clause
#include "settings/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>

#include "core/log.hpp"
#include "core/run_record.hpp"
#include "core/strict_json.hpp"
#include "reprieve/version.hpp"

namespace reprieve {

namespace {

using core::Json;
using core::Problems;
using Table = core::Table<Settings>;

/// Far more than any settings file; a device, or a data file given by mistake, would fill the memory.
constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20U;

std::string section_of(const std::string& key) {
  const auto dot = key.find('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

/// The row of @p key; null if there is none.
const core::Setting<Settings>* find(const Table& table, const std::string& key) {
  const auto row = std::find_if(table.begin(), table.end(), [&](const auto& each) { return each.key == key; });
  return row == table.end() ? nullptr : &*row;
}

/// Takes the values of a document into settings.
class Reader {
 public:
  Reader(Settings& settings, const std::vector<std::string>& foreign_sections)
      : settings_(settings), foreign_(foreign_sections.begin(), foreign_sections.end()) {
    foreign_.insert("$schema");
    for (const auto& row : table_) {
      const std::string section = section_of(row.key);
      members_[section].push_back(row.key.substr(section.empty() ? 0 : section.size() + 1));
    }
  }

  void read(const Json& document) {
    for (const auto& [key, value] : document.items()) {
      if (foreign_.contains(key)) {
        continue;
      }
      if (!key.empty() && members_.contains(key)) {
        read_section(key, value);
      } else {
        read_setting("", key, value);
      }
    }
    problems_.throw_if_any();
  }

 private:
  void read_section(const std::string& section, const Json& content) {
    if (!content.is_object()) {
      problems_.add(section, "found " + core::shown(content) + "; allowed: an object, {...}");
      return;
    }
    for (const auto& [key, value] : content.items()) {
      read_setting(section, key, value);
    }
  }

  void read_setting(const std::string& section, const std::string& name, const Json& value) {
    const std::string key = section.empty() ? name : section + "." + name;
    const auto* row = find(table_, key);
    if (const FormerSetting* const former = former_setting(key)) {
      problems_.add(key, std::string(former->fate));
    } else if (row == nullptr) {
      problems_.add_unknown(key, siblings(section), all_names());
    } else if (problems_.check(key, row->rule, value)) {
      row->set(settings_, value);
    }
  }

  /// What may stand beside an unknown key.
  [[nodiscard]] std::vector<std::string> siblings(const std::string& section) const {
    return section.empty() ? top_level() : members_.at(section);
  }

  [[nodiscard]] std::vector<std::string> top_level() const {
    std::vector<std::string> names = members_.at("");
    for (const auto& [section, keys] : members_) {
      if (!section.empty()) {
        names.push_back(section);
      }
    }
    names.insert(names.end(), foreign_.begin(), foreign_.end());
    return names;
  }

  [[nodiscard]] std::vector<std::string> all_names() const {
    std::vector<std::string> names = top_level();
    const auto keys = core::keys_of(table_);
    names.insert(names.end(), keys.begin(), keys.end());
    return names;
  }

  const Table table_ = all_settings();
  Settings& settings_;
  std::set<std::string> foreign_;
  std::map<std::string, std::vector<std::string>> members_;  ///< by section; those outside of sections under ""
  Problems problems_;
};

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  std::array<char, 4096> buffer{};
  while (stream.read(buffer.data(), buffer.size()) || stream.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kMaxFileBytes) {
      throw ConfigError(file.string() + " is larger than 16 MiB: not a settings file");
    }
  }
  if (!stream.is_open() || stream.bad()) {
    const int error = errno;
    const auto code = error == EACCES || error == EPERM ? ErrorCode::permission : ErrorCode::io;
    throw StorageError(code, "cannot read " + file.string() + ": " + std::generic_category().message(error));
  }
  return text;
}

}  // namespace

Settings settings_from_json(const std::string& text, const std::vector<std::string>& foreign_sections) {
  Settings settings;
  Reader(settings, foreign_sections).read(core::parse_object(text));
  return settings;
}

Settings settings_from_file(const std::filesystem::path& file, const std::vector<std::string>& foreign_sections) {
  const std::string text = content_of(file);
  try {
    return settings_from_json(text, foreign_sections);
  } catch (const ConfigError& error) {
    throw ConfigError(file.string() + ": " + error.what());
  }
}

std::string to_json(const Settings& settings) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  for (const auto& row : all_settings()) {
    const std::string section = section_of(row.key);
    auto& values = section.empty() ? document : document[section];
    values[row.key.substr(section.empty() ? 0 : section.size() + 1)] = row.get(settings);
  }
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void configure_logging(const LogOptions& options, bool is_rank_0) {
  core::log::set_level(is_rank_0 ? options.level : options.other_ranks);
}

namespace settings {
namespace {

constexpr std::string_view kPrefix = "REPRIEVE_";

/// What the supervisor and the tests of the library give to the programs that they start. They are no settings.
constexpr std::array<std::string_view, 5> kOtherVariables{core::kRunDirectoryVariable, core::kWatchesEndVariable,
                                                          "REPRIEVE_FAILPOINT", "REPRIEVE_KILL_RANK",
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
    } else if (const FormerSetting* const former = former_setting(name)) {
      problems.add(name, std::string(former->fate));
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
