#pragma once

/// @file
/// Whether a job would survive, from what a drill saw, and what to do if not. Pure.

#include <string>
#include <vector>

#include "supervisor/drill_facts.hpp"

namespace reprieve::supervisor {

struct Finding {
  enum class Grade {
    good,
    warning,  ///< it survived; look at it all the same
    problem,  ///< work would be lost
    unknown,  ///< the drill cannot tell
  };
  Grade grade = Grade::good;
  std::string id;      ///< for programs: "exit_code"
  std::string text;    ///< what was seen
  std::string advice;  ///< what to do; empty if nothing
};

/// Lower-case name: "good", "warning", "problem", "unknown".
const char* to_string(Finding::Grade grade) noexcept;

enum class DrillVerdict { would_survive, would_lose_work, could_not_tell };

/// Everything that is worth a line, in the order in which it happens.
std::vector<Finding> judge_drill(const DrillFacts& facts);

/// One problem means that work would be lost; without one, something unknown means that the drill cannot tell.
DrillVerdict verdict_of(const std::vector<Finding>& findings);

}  // namespace reprieve::supervisor
