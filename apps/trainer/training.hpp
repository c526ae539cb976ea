// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The training itself: one step at a time, data-parallel.

#include <cstdint>
#include <span>

#include "common/ranks.hpp"
#include "trainer/dataset.hpp"
#include "trainer/model.hpp"
#include "trainer/options.hpp"
#include "trainer/state.hpp"

namespace trainer {

/// Means over the samples.
struct Evaluation {
  double loss = 0;
  double accuracy = 0;
};

/// One training run. Each step takes one mini-batch of the whole job: every rank computes the gradient of its share of
/// the samples, gets the sum over all ranks for its slice of the parameters, updates that slice, and all ranks exchange
/// the new slices. The samples of a step are the same on any number of ranks.
class Training {
 public:
  /// Not collective. @p options and @p dataset must outlive this.
  /// @throws reprieve::ConfigError if the batch size does not fit the data
  Training(const Options& options, const Dataset& dataset, const apps::Ranks& ranks);

  /// Registers the state, which lives in this object.
  void register_state(reprieve::Checkpoint& checkpoint);

  /// To be called when a checkpoint was restored. Not collective; the same on every rank.
  /// @throws reprieve::MismatchError if it was made with another data set
  void check_restored() const;

  [[nodiscard]] bool finished() const noexcept { return state_.progress.epoch >= options_.epochs; }

  /// One step. Collective.
  void step();

  /// The model on the held-out images. Collective.
  [[nodiscard]] Evaluation evaluate() const;

  /// Fingerprints of the state, see digest_of. Collective.
  [[nodiscard]] Digests digests() const { return digest_of(state_, ranks_); }
  /// That of what does not depend on the number of ranks.
  [[nodiscard]] std::uint64_t digest() const { return digests().shared; }

  [[nodiscard]] const TrainingState& state() const noexcept { return state_; }
  [[nodiscard]] const Model& model() const noexcept { return model_; }
  [[nodiscard]] std::uint64_t steps_per_epoch() const noexcept { return steps_per_epoch_; }
  [[nodiscard]] std::uint64_t total_steps() const noexcept { return options_.epochs * steps_per_epoch_; }

 private:
  [[nodiscard]] Samples noisy_samples(std::span<const std::uint32_t> indices);
  void fail_if_asked(FailPoint point, std::uint64_t steps_before) const;
  void finish_epoch();

  const Options& options_;
  const Dataset& dataset_;
  const apps::Ranks& ranks_;
  Model model_;
  apps::Slice my_parameters_;
  Samples my_held_out_;
  std::uint64_t steps_per_epoch_;
  TrainingState state_;
};

}  // namespace trainer
