// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The loops that `reprieve-bench step` compares, and the work that stands for a step.

#include <mpi.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace reprieve::bench {

/// Work of a calibrated length that touches no memory and calls nothing.
class Work {
 public:
  /// Measures the speed of this machine once.
  Work();
  /// Iterations that take about so long.
  [[nodiscard]] std::uint64_t iterations(double seconds) const;
  static void run(std::uint64_t iterations);

 private:
  double seconds_per_iteration_;
};

/// What the ranks do with each other in a step.
enum class Ranks {
  meet_in_each_step,  ///< at its end, as in a code that exchanges data or adds up gradients
  never_meet,         ///< so that a check is where the faster rank waits for the slower one
};

/// Loops of which the seconds are returned, the slowest rank's. Collective over MPI_COMM_WORLD; they begin with a
/// barrier.
double bare_loop(std::uint64_t steps, std::uint64_t iterations);
double allreduce_loop(std::uint64_t steps, std::uint64_t iterations);

/// Seconds until the last rank has begun the save.
struct Reaction {
  double from_signal = 0;
  double from_end_of_step = 0;  ///< in which the signal came, on the rank to which it came
};

/// A loop under a handler that lives over all calls, so that it is in its steady state.
class HandlerLoop {
 public:
  explicit HandlerLoop(const std::filesystem::path& directory);
  ~HandlerLoop();
  HandlerLoop(const HandlerLoop&) = delete;
  HandlerLoop& operator=(const HandlerLoop&) = delete;

  /// Seconds in the step boundaries alone, the slowest rank's: each is timed on its own, since the noise of the work
  /// would hide its cost, less the time to read the clock.
  double run(std::uint64_t steps, std::uint64_t iterations, Ranks ranks);

  /// Seconds of a whole loop whose ranks never meet, the slowest rank's, without a clock in it: steps and boundaries.
  double run_whole(std::uint64_t steps, std::uint64_t iterations);

  /// Preempts the loop by a signal to the last rank, sent by another thread after @p delay_s. Collective; the same on
  /// every rank.
  Reaction reaction(std::uint64_t iterations, double delay_s, Ranks ranks);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprieve::bench
