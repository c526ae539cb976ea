// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which rank keeps a second copy of the part of which rank. Pure.

#include <map>
#include <string>
#include <vector>

namespace reprieve::manager {

/// What fails together, such as a rack, by host. A host that is not named is a domain of its own.
using FailureDomains = std::map<std::string, std::string>;

/// Lines `<host> <domain>`; empty lines, and what stands behind `#`, are passed over. @throws ConfigError
[[nodiscard]] FailureDomains parse_failure_domains(const std::string& text, const std::string& name);

/// The partner of each rank, on another host: hosts, not ranks, are paired, each with the next one in the order of
/// their lowest ranks that lies in another domain; if all lie in one, with the next one. -1 for all if there is one
/// host.
/// @param hosts  by rank
[[nodiscard]] std::vector<int> choose_partners(const std::vector<std::string>& hosts, const FailureDomains& domains);

}  // namespace reprieve::manager
