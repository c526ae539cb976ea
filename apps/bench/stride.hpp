// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How the interval between checks follows the length of the steps.

#include <vector>

#include "step_loops.hpp"

namespace reprieve::bench {

/// A loop whose steps change their length at once.
struct StrideChange {
  double from_s = 0;
  double to_s = 0;
  std::int64_t before = 0;             ///< boundaries from one check to the next, with steps of the old length
  std::int64_t after = 0;              ///< the same, with steps of the new length
  int checks = 0;                      ///< after the change, until the stride has come within a quarter of `after`
  std::int64_t first_check_steps = 0;  ///< steps of the new length until the first check
  double first_check_s = 0;            ///< from the change to the end of the first check
  double settled_s = 0;                ///< from the change until the stride has followed
};

/// Goes through steps of these lengths, one after the other. Collective over MPI_COMM_WORLD; the same on every rank but
/// for the times, which are those of the caller.
[[nodiscard]] std::vector<StrideChange> follow_changes(const Work& work, const std::vector<double>& steps_s);

}  // namespace reprieve::bench
