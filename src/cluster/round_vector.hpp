// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the threads of all ranks tell each other in one round: pure encoding and decoding, without MPI.

#include <array>
#include <chrono>
#include <cstdint>

#include "cluster/agreement_vector.hpp"

namespace reprieve::cluster {

/// What the thread of one rank says in a round.
struct RoundView {
  std::int64_t number = 0;  ///< of the round, from 1 on
  BoundaryIndex limit = 0;  ///< the main thread of this rank has not passed this boundary, and does not
  bool failed = false;      ///< the step of this rank failed
  bool closing = false;     ///< this rank's main thread is at the end: where all ranks are
  std::chrono::nanoseconds longest_step{0};
};

/// Reduced by element-wise maximum.
using RoundVector = std::array<std::int64_t, 6>;

[[nodiscard]] inline RoundVector encode(const RoundView& view) {
  return {view.number, -view.number, view.limit, view.failed ? 1 : 0, view.closing ? 0 : 1, view.longest_step.count()};
}

/// What all ranks know after a round: the same on every rank.
struct RoundVerdict {
  bool numbers_agree = false;  ///< or a message was lost
  BoundaryIndex limit = 0;     ///< the greatest: no rank has passed it
  bool any_failed = false;
  bool all_closing = false;
  std::chrono::nanoseconds longest_step{0};
};

[[nodiscard]] inline RoundVerdict decode(const RoundVector& vector) {
  return {vector[0] == -vector[1], vector[2], vector[3] != 0, vector[4] == 0, std::chrono::nanoseconds(vector[5])};
}

}  // namespace reprieve::cluster
