// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A fingerprint of a run's state, to see whether two runs came to the same bits.

#include <cstdint>

#include "common/ranks.hpp"
#include "trainer/state.hpp"

namespace trainer {

/// XXH3-64, over bytes in the order of the ranks. Times and counts of restarts are not part of it.
struct Digests {
  std::uint64_t shared = 0;  ///< replicated and distributed state: does not depend on the number of ranks
  std::uint64_t all = 0;     ///< that and the per-rank state
};

/// Collective; the result is the chief's, zeros elsewhere.
/// @throws reprieve::ClusterError on every rank if what is replicated is not equal on all ranks
Digests digest_of(const TrainingState& state, const apps::Ranks& ranks);

}  // namespace trainer
