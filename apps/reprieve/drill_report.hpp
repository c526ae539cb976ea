// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a drill found, for people and for programs.

#include <filesystem>
#include <ostream>
#include <vector>

#include "supervisor/drill_judgement.hpp"
#include "text.hpp"

namespace reprieve::tool {

struct DrillReport {
  supervisor::DrillFacts facts;
  std::vector<supervisor::Finding> findings;
  supervisor::DrillVerdict verdict = supervisor::DrillVerdict::could_not_tell;
  std::vector<std::filesystem::path> kept;  ///< directories with the drill's checkpoints
};

DrillReport make_report(supervisor::DrillFacts facts, std::vector<std::filesystem::path> kept);

Json to_json(const DrillReport& report);

void print_text(std::ostream& out, const DrillReport& report);

}  // namespace reprieve::tool
