// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Variables of an environment that is none of this process.

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/process.hpp"

namespace reprieve::test {

inline core::EnvironmentLookup lookup_in(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace reprieve::test
