// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The rules that turn a gradient into an update. An optimizer works on a slice of the flat parameter vector: every
/// rank updates its own and keeps the moments of that slice alone, so that their memory is spread over the ranks.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

enum class OptimizerKind : std::uint8_t { sgd, adam };

/// "sgd" or "adam".
std::string_view name_of(OptimizerKind kind) noexcept;

/// A learning rate that suits the kind.
double default_learning_rate(OptimizerKind kind) noexcept;

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
  void update_sgd(std::span<double> parameters, std::span<const double> gradient);
  void update_adam(std::span<double> parameters, std::span<const double> gradient, std::uint64_t step);

  OptimizerKind kind_;
  double learning_rate_;
  std::vector<Moment> moments_;
};

}  // namespace trainer
