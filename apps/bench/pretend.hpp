// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the ranks of a large job compute for a save and a restore, with descriptions that are made up.

#include <cstdint>
#include <string>
#include <vector>

namespace reprieve::bench {

struct PretendOptions {
  std::vector<std::uint64_t> ranks;
  std::vector<std::uint64_t> variables;
  std::string shape;  ///< one of pretended_shapes
};

[[nodiscard]] std::vector<std::string> pretended_shapes();

/// Not collective: rank 0 measures.
void run_pretended(const PretendOptions& options, bool json);

}  // namespace reprieve::bench
