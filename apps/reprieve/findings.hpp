// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a drill or an examination found, each with what to do about it: as lines and as JSON.

#include <ostream>
#include <vector>

#include "supervisor/drill_judgement.hpp"
#include "text.hpp"

namespace reprieve::tool {

void print_findings(std::ostream& out, const std::vector<supervisor::Finding>& findings);

Json to_json(const std::vector<supervisor::Finding>& findings);

}  // namespace reprieve::tool
