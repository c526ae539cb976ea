// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The environment of this process, and of programs that it starts; the host on which it runs.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reprieve::core {

/// Looks a variable of the environment up; an empty one counts as none.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string&)>;
[[nodiscard]] std::optional<std::string> environment_variable(const std::string& name);

/// Variables to set, or (without a value) to remove.
using EnvironmentChanges = std::map<std::string, std::optional<std::string>>;

/// The environment of this process with the changes, as "NAME=value".
[[nodiscard]] std::vector<std::string> merged_environment(const EnvironmentChanges& changes);

/// Arguments or an environment as exec takes them: pointers to the texts, and a null one at the end. Valid as long as
/// the texts are.
[[nodiscard]] std::vector<char*> pointers_to(std::vector<std::string>& texts);

/// The name of this host; empty if it is not known.
[[nodiscard]] std::string host_name();

}  // namespace reprieve::core
