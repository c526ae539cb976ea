// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Settings from the environment: what the variables REPRIEVE_... mean. Pure, but for `own_variables`.

#include <map>
#include <string>
#include <vector>

#include "core/setting.hpp"
#include "reprieve/settings.hpp"

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
