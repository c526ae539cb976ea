// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A multi-layer perceptron: dense layers with ReLU between them, softmax and cross-entropy at the end.

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Inputs and their classes: row-major, `inputs.size() == labels.size() * (number of inputs)`.
struct Samples {
  std::vector<double> inputs;
  std::vector<std::uint8_t> labels;
};

/// Sums over samples, so that parts computed on different ranks can be added.
struct Score {
  double loss = 0;     ///< sum of the cross-entropies, in nats
  double correct = 0;  ///< number of samples whose most probable class is the right one
  double samples = 0;
};

/// Where a layer's parameters lie in the flat vector of all parameters.
struct LayerView {
  std::size_t inputs;
  std::size_t outputs;
  std::size_t weights;  ///< index of the first weight; weight (i, o) is at `weights + i * outputs + o`
  std::size_t biases;   ///< index of the first bias
};

/// The network's arithmetic. It owns no parameters: they live in one flat vector, which ranks can split as they like.
class Model {
 public:
  /// @param layer_sizes  inputs, hidden sizes, classes; at least two
  explicit Model(std::vector<std::size_t> layer_sizes);

  [[nodiscard]] const std::vector<std::size_t>& layer_sizes() const noexcept { return layer_sizes_; }
  [[nodiscard]] const std::vector<LayerView>& layers() const noexcept { return layers_; }
  [[nodiscard]] std::size_t parameter_count() const noexcept { return parameter_count_; }

  /// He initialisation: weights normal with variance 2 / inputs, biases zero.
  [[nodiscard]] std::vector<double> initial_parameters(std::mt19937_64& engine) const;

  /// Adds the gradient of the *sum* of the samples' losses to @p gradient.
  Score add_gradient(std::span<const double> parameters, const Samples& samples, std::span<double> gradient) const;

  [[nodiscard]] Score evaluate(std::span<const double> parameters, const Samples& samples) const;

 private:
  /// The outputs of every layer, for every sample; those of the last are the class probabilities.
  using Activations = std::vector<std::vector<double>>;
  [[nodiscard]] Activations forward(std::span<const double> parameters, const Samples& samples) const;
  [[nodiscard]] Score score(const std::vector<double>& probabilities, const Samples& samples) const;

  std::vector<std::size_t> layer_sizes_;
  std::vector<LayerView> layers_;
  std::size_t parameter_count_ = 0;
};

// The rules that turn a gradient into an update. An optimizer works on a slice of the flat parameter vector: every
// rank updates its own and keeps the moments of that slice alone, so that their memory is spread over the ranks.

enum class OptimizerKind : std::uint8_t { sgd, adam };

/// "sgd" or "adam".
std::string_view name_of(OptimizerKind kind) noexcept;

/// A running average of gradients, one element per parameter of the slice.
struct Moment {
  std::string name;
  std::vector<double> values;
};

/// SGD with momentum, or Adam (D. P. Kingma and J. Ba, 2015).
class Optimizer {
 public:
  /// @param slice_size  number of parameters that it updates
  Optimizer(OptimizerKind kind, double learning_rate, std::size_t slice_size);

  /// One update.
  /// @param step  counts from 1; Adam corrects its averages' bias with it
  void update(std::span<double> parameters, std::span<const double> gradient, std::uint64_t step);

  /// Everything that it remembers; belongs into a checkpoint.
  [[nodiscard]] std::vector<Moment>& moments() noexcept { return moments_; }
  [[nodiscard]] const std::vector<Moment>& moments() const noexcept { return moments_; }

 private:
  void update_adam(std::span<double> parameters, std::span<const double> gradient, std::uint64_t step);

  OptimizerKind kind_;
  double learning_rate_;
  std::vector<Moment> moments_;
};

}  // namespace trainer
