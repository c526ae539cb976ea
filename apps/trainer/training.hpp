// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The training: what it is asked to do, everything that it must remember, one step at a time, data-parallel, and its
/// result.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <reprieve/checkpoint.hpp>
#include <span>
#include <vector>

#include "common/program.hpp"
#include "common/ranks.hpp"
#include "trainer/dataset.hpp"
#include "trainer/model.hpp"

namespace trainer {

/// Where in a step `--fail-rank` throws.
enum class FailPoint : std::uint8_t {
  begin,  ///< before the ranks exchange gradients: the others are stuck in the exchange
  end,    ///< after it: the others get it at the next check, unless they wait in the next exchange before that
};

struct Options : apps::ProgramOptions {
  std::filesystem::path data;  ///< empty: the data set that comes with the program
  std::uint64_t epochs = 40;
  std::uint64_t steps_per_epoch = 0;  ///< 0: as many as the training set has batches
  std::uint64_t batch_size = 64;      ///< of all ranks together
  std::vector<std::size_t> hidden{64};
  OptimizerKind optimizer = OptimizerKind::adam;
  std::optional<double> learning_rate;
  double noise = 0.1;
  std::uint64_t seed = 1;

  int fail_rank = -1;
  std::uint64_t fail_step = 0;
  FailPoint fail_point = FailPoint::end;
};

/// Reads the command line, the file that `--config` names, and the environment. Not collective.
/// @throws reprieve::ConfigError, reprieve::StorageError
Options parse_options(int argc, const char* const* argv);

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

/// A fingerprint of a run's state, to see whether two runs came to the same bits. XXH3-64, over bytes in the order of
/// the ranks. Times and counts of restarts are not part of it.
struct Digests {
  std::uint64_t shared = 0;  ///< replicated and distributed state: does not depend on the number of ranks
  std::uint64_t all = 0;     ///< that and the per-rank state
};

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

  /// Fingerprints of the state. Collective; the result is rank 0's, zeros elsewhere.
  /// @throws reprieve::ClusterError on every rank if what is replicated is not equal on all ranks
  [[nodiscard]] Digests digests() const;
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

/// The result of a run as JSON, for scripts.
struct Summary : apps::Outcome {
  Progress progress;
  Evaluation evaluation;
  Digests digests;
};

/// Collective; the digests are rank 0's.
Summary summary_of(const Training& training);

/// apps/trainer/README.md describes the keys.
apps::Json to_json(const Summary& summary);

}  // namespace trainer
