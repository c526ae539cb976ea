// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a person sees of a run, and what a script gets.

#include <chrono>
#include <cstdint>
#include <reprieve/checkpoint_manager.hpp>

#include "common/program.hpp"
#include "heat/simulation.hpp"

namespace heat {

struct Summary : apps::Outcome {
  Index ranks{};
  std::uint64_t step = 0;
  double time = 0;
  std::uint64_t digest = 0;  ///< of the field
  double error = 0;
  double expected_error = 0;
};

/// Collective; the same on every rank.
Summary summary_of(const Simulation& simulation);

/// apps/heat/README.md describes the keys.
apps::Json to_json(const Summary& summary);

/// Prints progress on standard output, on rank 0 alone: the other ranks' reports are silent.
class Report {
 public:
  Report(bool is_chief, const Options& options);

  void start(const Simulation& simulation, int world_size);
  void resumed(const reprieve::CheckpointInfo& from, const Simulation& simulation, std::uint64_t digest);
  /// To be called after every step; prints a line now and then.
  void after_step(const Simulation& simulation);
  void preempted(const Summary& summary, int exit_code) const;
  void finished(const Summary& summary, bool had_nothing_to_do) const;

 private:
  using Clock = std::chrono::steady_clock;

  bool is_chief_;
  const Options& options_;
  std::uint64_t first_step_ = 0;  ///< steps done before this process began
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_line_ = start_;
};

}  // namespace heat
