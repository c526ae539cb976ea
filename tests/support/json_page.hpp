// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What apps/reprieve/JSON.md promises of the JSON of the tool, against what the tool prints.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace reprieve::test {

class JsonPage {
 public:
  /// Path of a field, as `checkpoints[].file`, and its type.
  using Fields = std::map<std::string, std::string>;

  JsonPage() {
    std::ifstream stream(std::string(REPRIEVE_SOURCE_DIR) + "/apps/reprieve/JSON.md");
    const std::regex row(R"(\| `([^`]+)` \| ([^|]*) \|.*)");
    const std::regex reference(R"(as `(.*)` of (\S+))");
    std::string section;
    std::smatch part;
    for (std::string line; std::getline(stream, line);) {
      std::smatch whose;
      if (line.starts_with("## ")) {
        section = line.substr(3);
      } else if (std::regex_match(line, part, row) && std::string(part[2]).starts_with("as ")) {
        const std::string type = part[2];
        EXPECT_TRUE(std::regex_match(type, whose, reference)) << line;
        references_[section].push_back({part[1], whose[1], whose[2]});
      } else if (std::regex_match(line, part, row)) {
        fields_[section][part[1]] = part[2];
      }
    }
  }

  /// Those of a command.
  [[nodiscard]] Fields of(const std::string& command) const {
    Fields found = fields_.at(command);
    for (const auto& each : references_.contains(command) ? references_.at(command) : std::vector<Reference>()) {
      const std::string before = each.path.substr(0, each.path.size() - 1);  // "reason." of "reason.*"
      for (const auto& [path, type] : each.command == command ? Fields(found) : of(each.command)) {
        const std::string of = each.of == "all" ? "" : each.of + ".";
        if (path.starts_with(of)) {
          found[before + path.substr(of.size())] = type;
        }
      }
    }
    return found;
  }

  /// Whether an answer has the fields of the page, of their types, and no others.
  void expect(const std::string& command, const nlohmann::json& json) const {
    Fields fields = of(json.contains("error") ? "every command" : command);
    fields["version"] = "integer";
    EXPECT_EQ(json.value("version", 0), 1) << json;
    expect_object(fields, "", json);
  }

  /// The names of those that not every answer has.
  [[nodiscard]] std::set<std::string> optional_names() const {
    std::set<std::string> names;
    for (const auto& [command, fields] : fields_) {
      for (const auto& [path, type] : fields) {
        if (type.find("optional") != std::string::npos) {
          names.insert(path.substr(path.find_last_of('.') + 1));
        }
      }
    }
    return names;
  }

 private:
  struct Reference {
    std::string path;
    std::string of;
    std::string command;
  };

  static bool fits(const nlohmann::json& value, const std::string& type) {
    return (value.is_null() && type.find("or null") != std::string::npos) ||
           (value.is_string() && (type.starts_with("string") || type.ends_with("or string"))) ||
           (value.is_boolean() && type.starts_with("boolean")) ||
           (value.is_number_integer() && type.starts_with("integer")) ||
           (value.is_number() && type.starts_with("number")) || (value.is_object() && type.starts_with("object")) ||
           (value.is_array() && type.starts_with("list"));
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the JSON
  static void expect_object(const Fields& page, const std::string& before, const nlohmann::json& json) {
    for (const auto& [name, value] : json.items()) {
      const std::string path = before + name;
      if (name == "members" && before.find("members[]") != std::string::npos) {
        continue;  // a struct in a struct
      }
      if (!page.contains(path)) {
        ADD_FAILURE() << path << " is not on the page";
        continue;
      }
      EXPECT_TRUE(fits(value, page.at(path))) << path << " is no " << page.at(path) << ": " << value;
      if (value.is_object()) {
        expect_object(page, path + '.', value);
      }
      for (const nlohmann::json& each : value.is_array() ? value : nlohmann::json::array()) {
        if (each.is_object()) {
          expect_object(page, path + "[].", each);
        }
      }
    }
    for (const auto& [path, type] : page) {
      const bool is_own = path.starts_with(before) && path.find('.', before.size()) == std::string::npos;
      if (is_own && type.find("optional") == std::string::npos) {
        EXPECT_TRUE(json.contains(path.substr(before.size()))) << path << " is on the page, and not in " << json;
      }
    }
  }

  std::map<std::string, Fields> fields_;
  std::map<std::string, std::vector<Reference>> references_;
};

}  // namespace reprieve::test
