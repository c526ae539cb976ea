// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/settings.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <map>
#include <set>
#include <system_error>

#include "core/log.hpp"
#include "core/strict_json.hpp"
#include "settings/settings_table.hpp"

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
    if (row == nullptr) {
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
  core::OrderedJson document = core::OrderedJson::object();
  for (const auto& row : all_settings()) {
    const std::string section = section_of(row.key);
    auto& place = section.empty() ? document : document[section];
    place[row.key.substr(section.empty() ? 0 : section.size() + 1)] = row.get(settings);
  }
  return document.dump(2, ' ', false, core::OrderedJson::error_handler_t::replace);
}

void configure_logging(const LogOptions& options, bool is_chief) {
  core::log::set_level(is_chief ? options.level : options.other_ranks);
}

}  // namespace reprieve
