// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Options of a CLI11 program from one section of a JSON file.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace apps {

/// Reads the section `name` of a JSON file: the keys are the long option names, with `_` for `-`. Strict: an unknown
/// key or a value of another type than the option's is an error that names the key and what is allowed. The other
/// sections are left to their owners.
class JsonSection : public CLI::Config {
 public:
  /// @param app  outlives this
  JsonSection(const CLI::App& app, std::string name) : app_(&app), name_(std::move(name)) {}

  [[nodiscard]] std::string to_config(const CLI::App* app, bool default_also, bool write_description,
                                      std::string prefix) const override;
  [[nodiscard]] std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

 private:
  [[nodiscard]] const CLI::Option& find_option(const std::string& key) const;

  const CLI::App* app_;
  std::string name_;
};

}  // namespace apps
