// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the settings of a handler may be.

#include <span>
#include <string_view>

#include "core/setting.hpp"
#include "reprieve/manager_options.hpp"
#include "reprieve/settings.hpp"
#include "reprieve/termination_config.hpp"

namespace reprieve {

/// Keys without a section. The functions of the configuration are left out.
core::Table<TerminationConfig> termination_settings();

/// Every setting of the library, under its full key. Drives JSON, environment and schema.
core::Table<Settings> all_settings();

/// A setting of an earlier version.
struct FormerSetting {
  std::string_view key;   ///< its full one
  std::string_view fate;  ///< what became of it, as an error says it
};
std::span<const FormerSetting> former_settings();
/// Null if @p key never was one.
const FormerSetting* former_setting(std::string_view key);

/// The JSON schema of a settings file: the content of configs/reprieve.schema.json.
core::OrderedJson settings_schema();

/// @throws ConfigError that names every setting out of range and says what is allowed
void validate(const TerminationConfig& config);

// What the options of a manager may be.

inline constexpr double kYear = 31'536'000;  ///< in seconds; the longest of most times

/// Keys without a section. Functions and what is not a setting are left out.
core::Table<ManagerOptions> manager_settings();

/// @throws ConfigError that names every option out of range and says what is allowed
void validate(const ManagerOptions& options);

}  // namespace reprieve
