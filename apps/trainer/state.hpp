// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Everything that a training run must remember, and how it goes into a checkpoint.

#include <array>
#include <cstdint>
#include <random>
#include <reprieve/checkpoint.hpp>
#include <vector>

#include "common/ranks.hpp"
#include "trainer/dataset.hpp"
#include "trainer/model.hpp"

namespace trainer {

struct Progress {
  std::uint64_t epoch = 0;          ///< epochs completed
  std::uint64_t step_in_epoch = 0;  ///< steps completed in the present epoch
  std::uint64_t step = 0;           ///< steps completed
};

/// One value per completed epoch.
struct History {
  std::vector<double> training_loss;
  std::vector<double> held_out_loss;
  std::vector<double> accuracy;  ///< on the held-out images, 0 to 1
};

struct TrainingState {
  // Replicated: equal on all ranks.
  std::vector<double> parameters;
  Sampler sampler;
  Progress progress;
  History history;
  std::uint64_t data_fingerprint = 0;  ///< of the data set; restored, so compare it after a restore

  // Distributed: the moments of this rank's slice of the parameters.
  Optimizer optimizer;

  // Per rank.
  std::mt19937_64 noise_engine;                ///< of the noise on this rank's samples
  std::array<double, 2> epoch_loss_samples{};  ///< sum of losses and number of samples in the present epoch
};

/// The engine of a rank's noise: another one on every rank.
std::mt19937_64 noise_engine_of(std::uint64_t seed, int rank);

/// Registers everything; @p state must outlive @p checkpoint.
/// @param mine  the slice of the parameters whose moments are in @p state
void register_state(reprieve::Checkpoint& checkpoint, TrainingState& state, const Model& model, apps::Slice mine);

/// Per-rank variables on another number of ranks: rank r gets the engine of the old rank r; ranks beyond those derive
/// one of their own from it.
std::mt19937_64 redistribute_engine(const reprieve::PerRankPieces& pieces, int rank);

/// The sums of all old ranks go to rank 0, so that the sum over the ranks stays what it was.
std::array<double, 2> redistribute_sums(const reprieve::PerRankPieces& pieces, int rank);

// A fingerprint of a run's state, to see whether two runs came to the same bits.

/// XXH3-64, over bytes in the order of the ranks. Times and counts of restarts are not part of it.
struct Digests {
  std::uint64_t shared = 0;  ///< replicated and distributed state: does not depend on the number of ranks
  std::uint64_t all = 0;     ///< that and the per-rank state
};

/// Collective; the result is rank 0's, zeros elsewhere.
/// @throws reprieve::ClusterError on every rank if what is replicated is not equal on all ranks
Digests digest_of(const TrainingState& state, const apps::Ranks& ranks);

}  // namespace trainer
