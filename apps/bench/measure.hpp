// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Interleaved measurement of candidates that do the same on all ranks.

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "statistics.hpp"

namespace reprieve::bench {

/// One way to do what is measured. Both functions are called by all ranks of the communicator.
struct Candidate {
  std::string name;
  std::function<void()> run;           ///< timed
  std::function<void()> prepare = {};  ///< not timed, before every run; may be empty
  bool checksums = false;              ///< it computes or verifies checksums
};

struct Measurement {
  std::vector<double> seconds;     ///< of the slowest rank, one per round
  std::uint64_t memory_bytes = 0;  ///< greatest growth of a rank's resident memory during a run
};

/// Runs every candidate once per round, in turn (A B C A B C ...), after @p warm_up rounds that do not count.
/// Collective over @p comm.
[[nodiscard]] std::vector<Measurement> measure_interleaved(MPI_Comm comm, const std::vector<Candidate>& candidates,
                                                           int rounds, int warm_up);

/// A part of MPI_COMM_WORLD: the first @p ranks ranks. The others sleep in `join` until these are done.
class FirstRanks {
 public:
  explicit FirstRanks(int ranks);
  ~FirstRanks();
  FirstRanks(const FirstRanks&) = delete;
  FirstRanks& operator=(const FirstRanks&) = delete;

  [[nodiscard]] bool is_member() const noexcept { return comm_ != MPI_COMM_NULL; }
  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }

  /// Runs @p work on the members; returns on every rank of the world when all are through. Waiting ranks leave the
  /// processors alone.
  void run(const std::function<void()>& work) const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace reprieve::bench
