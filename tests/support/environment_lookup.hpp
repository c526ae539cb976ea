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

inline core::EnvironmentLookup lookup_of(std::map<std::string, std::optional<std::string>> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : found->second;
  };
}
inline core::EnvironmentLookup lookup_in(const std::map<std::string, std::string>& variables) {
  return lookup_of({variables.begin(), variables.end()});
}

}  // namespace reprieve::test
