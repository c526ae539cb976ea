// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The runs that have left an event log, and how they stand.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <vector>

#include "run_status.hpp"

namespace reprieve::tool {

/// Those with an event log, at @p top and below it.
std::set<std::filesystem::path> run_directories(const std::filesystem::path& top);

/// By its event log, and by whether its processes live, as far as can be seen from here. Nothing if the log tells of no
/// run.
std::optional<RunStatus> look_at(const std::filesystem::path& directory, const std::vector<nlohmann::json>& events);

}  // namespace reprieve::tool
