// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// From the events of a log to the starts of the run and its pieces of work. Pure.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "run_report.hpp"

namespace reprieve::tool {

/// Everything but the sums: how much of the work each start kept is in the fate of the spans.
RunReport walk_events(const RunStatus& status, const std::vector<nlohmann::json>& events, TimePoint now);

}  // namespace reprieve::tool
