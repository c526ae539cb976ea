// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether a job would survive, from what a drill saw, and what to do if not. Pure.

#include <vector>

#include "supervisor/drill_facts.hpp"
#include "supervisor/finding.hpp"

namespace reprieve::supervisor {

enum class DrillVerdict { would_survive, would_lose_work, could_not_tell };

/// Everything that is worth a line, in the order in which it happens.
std::vector<Finding> judge_drill(const DrillFacts& facts);

/// One problem means that work would be lost; without one, something unknown means that the drill cannot tell.
DrillVerdict verdict_of(const std::vector<Finding>& findings);

}  // namespace reprieve::supervisor
