// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/training.hpp"

#include <algorithm>
#include <array>
#include <reprieve/error.hpp>
#include <stdexcept>
#include <string>
#include <thread>

namespace trainer {
namespace {

Model make_model(const Options& options) {
  std::vector<std::size_t> sizes{kPixels};
  sizes.insert(sizes.end(), options.hidden.begin(), options.hidden.end());
  sizes.push_back(kClasses);
  return Model(std::move(sizes));
}

Samples part_of(const Samples& samples, apps::Slice slice) {
  const auto inputs = samples.inputs.begin() + static_cast<std::ptrdiff_t>(slice.offset * kPixels);
  const auto labels = samples.labels.begin() + static_cast<std::ptrdiff_t>(slice.offset);
  return {{inputs, inputs + static_cast<std::ptrdiff_t>(slice.size * kPixels)},
          {labels, labels + static_cast<std::ptrdiff_t>(slice.size)}};
}

std::uint64_t choose_steps_per_epoch(const Options& options, std::size_t samples) {
  if (options.batch_size > samples) {
    throw reprieve::ConfigError("--batch-size " + std::to_string(options.batch_size) + " is greater than the " +
                                std::to_string(samples) + " training images");
  }
  return options.steps_per_epoch > 0 ? options.steps_per_epoch : samples / options.batch_size;
}

TrainingState initial_state(const Options& options, const Dataset& dataset, const Model& model, apps::Slice mine,
                            int rank) {
  std::mt19937_64 weight_engine(options.seed);
  const double learning_rate = options.learning_rate.value_or(default_learning_rate(options.optimizer));
  return {.parameters = model.initial_parameters(weight_engine),
          .sampler = Sampler(dataset.training.labels.size(), options.seed),
          .progress = {},
          .history = {},
          .data_fingerprint = dataset.fingerprint,
          .optimizer = Optimizer(options.optimizer, learning_rate, mine.size),
          .noise_engine = noise_engine_of(options.seed, rank)};
}

}  // namespace

Training::Training(const Options& options, const Dataset& dataset, const apps::Ranks& ranks)
    : options_(options),
      dataset_(dataset),
      ranks_(ranks),
      model_(make_model(options)),
      my_parameters_(ranks.my_slice(model_.parameter_count())),
      my_held_out_(part_of(dataset.held_out, ranks.my_slice(dataset.held_out.labels.size()))),
      steps_per_epoch_(choose_steps_per_epoch(options, dataset.training.labels.size())),
      state_(initial_state(options, dataset, model_, my_parameters_, ranks.rank())) {}

void Training::register_state(reprieve::Checkpoint& checkpoint) {
  trainer::register_state(checkpoint, state_, model_, my_parameters_);
}

void Training::check_restored() const {
  if (state_.data_fingerprint != dataset_.fingerprint) {
    throw reprieve::MismatchError(
        "the checkpoint was made with another data set: give that one with --data, or another --checkpoint-dir");
  }
}

void Training::step() {
  const std::uint64_t steps_before = state_.progress.step;
  fail_if_asked(FailPoint::begin, steps_before);
  const std::span<const std::uint32_t> batch = state_.sampler.next(options_.batch_size);
  const apps::Slice share = ranks_.my_slice(batch.size());
  const Samples samples = noisy_samples(batch.subspan(share.offset, share.size));

  std::vector<double> gradient(model_.parameter_count());
  const Score score = model_.add_gradient(state_.parameters, samples, gradient);
  std::vector<double> mean = ranks_.sum_slice(gradient);
  for (double& component : mean) {
    component /= static_cast<double>(batch.size());
  }
  const std::span<double> parameters(state_.parameters);
  state_.optimizer.update(parameters.subspan(my_parameters_.offset, my_parameters_.size), mean, steps_before + 1);
  ranks_.all_gather_slices(parameters);
  state_.epoch_loss_samples[0] += score.loss;
  state_.epoch_loss_samples[1] += score.samples;

  // The library's sleep continues after a signal, so a notice does not shorten a step.
  std::this_thread::sleep_for(options_.step_delay);
  state_.progress.step = steps_before + 1;
  if (++state_.progress.step_in_epoch >= steps_per_epoch_) {
    finish_epoch();
  }
  fail_if_asked(FailPoint::end, steps_before);
}

Evaluation Training::evaluate() const {
  const Score mine = model_.evaluate(state_.parameters, my_held_out_);
  std::array<double, 3> sums{mine.loss, mine.correct, mine.samples};
  ranks_.sum(sums);
  return {sums[0] / sums[2], sums[1] / sums[2]};
}

Samples Training::noisy_samples(std::span<const std::uint32_t> indices) {
  const Samples& all = dataset_.training;
  Samples samples;
  samples.inputs.reserve(indices.size() * kPixels);
  for (const std::uint32_t index : indices) {
    const auto image = all.inputs.begin() + static_cast<std::ptrdiff_t>(index * kPixels);
    samples.inputs.insert(samples.inputs.end(), image, image + static_cast<std::ptrdiff_t>(kPixels));
    samples.labels.push_back(all.labels[index]);
  }
  if (options_.noise > 0) {
    // Made again in every step: a distribution may keep values back, which would be state outside of the engine.
    std::normal_distribution<double> noise(0, options_.noise);
    for (double& pixel : samples.inputs) {
      pixel += noise(state_.noise_engine);
    }
  }
  return samples;
}

void Training::fail_if_asked(FailPoint point, std::uint64_t steps_before) const {
  if (ranks_.rank() == options_.fail_rank && steps_before == options_.fail_step && point == options_.fail_point) {
    throw std::runtime_error("failed on purpose (--fail-rank " + std::to_string(options_.fail_rank) + " --fail-step " +
                             std::to_string(options_.fail_step) + ")");
  }
}

void Training::finish_epoch() {
  std::array<double, 2> sums = state_.epoch_loss_samples;
  ranks_.sum(sums);
  const Evaluation evaluation = evaluate();
  state_.history.training_loss.push_back(sums[0] / sums[1]);
  state_.history.held_out_loss.push_back(evaluation.loss);
  state_.history.accuracy.push_back(evaluation.accuracy);
  state_.epoch_loss_samples = {};
  state_.progress.step_in_epoch = 0;
  ++state_.progress.epoch;
}

}  // namespace trainer
