// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a person sees of a run.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <reprieve/checkpoint_manager.hpp>

#include "common/program.hpp"
#include "trainer/state.hpp"
#include "trainer/training.hpp"

namespace trainer {

// The result of a run as JSON, for scripts.

struct Summary : apps::Outcome {
  Progress progress;
  Evaluation evaluation;
  Digests digests;
};

/// Collective; the digests are rank 0's.
Summary summary_of(const Training& training);

/// apps/trainer/README.md describes the keys.
apps::Json to_json(const Summary& summary);

/// Prints progress on standard output, on rank 0 alone: the other ranks' reports are silent.
class Report {
 public:
  Report(bool is_chief, const Options& options);

  void start(const Training& training, const Dataset& dataset, const std::filesystem::path& data, int world_size);
  void resumed(const reprieve::CheckpointInfo& from, const Training& training, std::uint64_t digest);
  /// To be called after every step; prints a line at the end of an epoch.
  void after_step(const Training& training);
  void preempted(const Summary& summary, int exit_code) const;
  void finished(const Summary& summary, bool had_nothing_to_do) const;

 private:
  using Clock = std::chrono::steady_clock;

  void print_epoch(const Training& training);

  bool is_chief_;
  const Options& options_;
  std::uint64_t first_step_ = 0;  ///< steps done before this process began
  std::uint64_t epoch_step_ = 0;  ///< steps done when the present epoch began, in this process
  std::uint64_t epoch_ = 0;       ///< epochs done when the last line was printed
  Clock::time_point start_ = Clock::now();
  Clock::time_point epoch_start_ = start_;
};

}  // namespace trainer
