// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the settings of a handler may be.

#include "core/setting.hpp"
#include "reprieve/settings.hpp"
#include "reprieve/termination_config.hpp"

namespace reprieve {

/// Keys without a section. The functions of the configuration are left out.
core::Table<TerminationConfig> termination_settings();

/// Every setting of the library, under its full key. Drives JSON, environment and schema.
core::Table<Settings> all_settings();

/// The JSON schema of a settings file: the content of configs/reprieve.schema.json.
core::OrderedJson settings_schema();

/// @throws ConfigError that names every setting out of range and says what is allowed
void validate(const TerminationConfig& config);

}  // namespace reprieve
