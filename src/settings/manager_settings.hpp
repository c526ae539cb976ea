// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the options of a manager may be.

#include "core/setting.hpp"
#include "reprieve/manager_options.hpp"

namespace reprieve {

inline constexpr double kYear = 31'536'000;  ///< in seconds; the longest of most times

/// Keys without a section. Functions and what is not a setting are left out.
core::Table<ManagerOptions> manager_settings();

/// @throws ConfigError that names every option out of range and says what is allowed
void validate(const ManagerOptions& options);

}  // namespace reprieve
