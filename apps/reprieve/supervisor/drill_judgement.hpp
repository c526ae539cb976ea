// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the facts of a drill mean: whether a job would survive, and what to do if not. Pure.

#include <string>
#include <vector>

#include "supervisor/drill.hpp"
#include "text.hpp"

namespace reprieve::supervisor {

enum class DrillVerdict { would_survive, would_lose_work, could_not_tell };

/// Everything that is worth a line, in the order in which it happens.
std::vector<Finding> judge_drill(const DrillFacts& facts);

/// One problem means that work would be lost; without one, something unknown means that the drill cannot tell.
DrillVerdict verdict_of(const std::vector<Finding>& findings);

// Whether a resumed run goes the way of one that nothing disturbed, from what a drill saw, and what to do if not.
// Pure.

/// In the order in which it happens.
std::vector<Finding> judge_replay(const ReplayFacts& facts);

/// ", 2 ignored", or nothing.
std::string ignored_text(const StateComparison& comparison);

/// The variables, with commas between them.
std::string names_of(const std::vector<StateDifference>& differences);

}  // namespace reprieve::supervisor
