// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The settings of a handler and of a manager: what they may be, and what the variables REPRIEVE_... mean. Pure, but
/// for `own_variables`.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/setting.hpp"
#include "reprieve/manager_options.hpp"
#include "reprieve/settings.hpp"
#include "reprieve/termination_config.hpp"

namespace reprieve {

inline constexpr double kYear = 31'536'000;  ///< in seconds; the longest of most times

/// Keys without a section. Functions and what is not a setting are left out.
core::Table<TerminationConfig> termination_settings();
core::Table<ManagerOptions> manager_settings();

/// Every setting of the library, under its full key. Drives JSON, environment and schema.
core::Table<Settings> all_settings();

/// A setting of an earlier version.
struct FormerSetting {
  std::string_view key;   ///< its full one
  std::string_view fate;  ///< what became of it, as an error says it
};
std::span<const FormerSetting> former_settings();
/// @param name  a key, or its variable; null if it never was one
const FormerSetting* former_setting(std::string_view name);

/// @throws ConfigError that names every setting out of range and says what is allowed
void validate(const TerminationConfig& config);
void validate(const ManagerOptions& options);

}  // namespace reprieve

// Settings from the environment.

namespace reprieve::settings {

using Variables = std::map<std::string, std::string>;

/// The variables of this process's environment that begin with REPRIEVE_. Those that are empty count as not set.
[[nodiscard]] Variables own_variables();

/// "termination.restart_code" is REPRIEVE_TERMINATION_RESTART_CODE.
[[nodiscard]] std::string variable_of(const std::string& key);

struct FromEnvironment {
  core::Json values = core::Json::object();  ///< by key
  std::vector<std::string> unknown;          ///< variables that this version does not know
};

/// @throws ConfigError that names all mistakes at once: values that are not allowed, names that are almost those of a
/// setting, and what cannot be set from outside of the program
[[nodiscard]] FromEnvironment read(const Variables& variables);

/// For the log; nothing if all are known.
[[nodiscard]] std::string unknown_variables_text(const std::vector<std::string>& unknown);

/// Takes over the values that `read` gave.
void apply(const core::Json& values, Settings& settings);

}  // namespace reprieve::settings
