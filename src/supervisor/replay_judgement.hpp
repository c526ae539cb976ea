// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether a resumed run goes the way of one that nothing disturbed, from what a drill saw, and what to do if not.
/// Pure.

#include <string>
#include <vector>

#include "supervisor/drill_facts.hpp"
#include "supervisor/finding.hpp"

namespace reprieve::supervisor {

/// In the order in which it happens.
std::vector<Finding> judge_replay(const ReplayFacts& facts);

/// ", 2 ignored", or nothing.
std::string ignored_text(const StateComparison& comparison);

/// The variables, with commas between them.
std::string names_of(const std::vector<StateDifference>& differences);

}  // namespace reprieve::supervisor
