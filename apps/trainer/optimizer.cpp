// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/optimizer.hpp"

#include <cmath>

namespace trainer {
namespace {

constexpr double kMomentum = 0.9;
constexpr double kFirstDecay = 0.9;
constexpr double kSecondDecay = 0.999;
constexpr double kEpsilon = 1e-8;

}  // namespace

std::string_view name_of(OptimizerKind kind) noexcept { return kind == OptimizerKind::sgd ? "sgd" : "adam"; }

double default_learning_rate(OptimizerKind kind) noexcept { return kind == OptimizerKind::sgd ? 0.1 : 0.003; }

Optimizer::Optimizer(OptimizerKind kind, double learning_rate, std::size_t slice_size)
    : kind_(kind), learning_rate_(learning_rate) {
  const std::vector<double> zeros(slice_size);
  if (kind == OptimizerKind::sgd) {
    moments_ = {{"velocity", zeros}};
  } else {
    moments_ = {{"first_moment", zeros}, {"second_moment", zeros}};
  }
}

void Optimizer::update(std::span<double> parameters, std::span<const double> gradient, std::uint64_t step) {
  if (kind_ == OptimizerKind::sgd) {
    update_sgd(parameters, gradient);
  } else {
    update_adam(parameters, gradient, step);
  }
}

void Optimizer::update_sgd(std::span<double> parameters, std::span<const double> gradient) {
  std::vector<double>& velocity = moments_[0].values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    velocity[i] = kMomentum * velocity[i] + gradient[i];
    parameters[i] -= learning_rate_ * velocity[i];
  }
}

void Optimizer::update_adam(std::span<double> parameters, std::span<const double> gradient, std::uint64_t step) {
  std::vector<double>& first = moments_[0].values;
  std::vector<double>& second = moments_[1].values;
  const double first_correction = 1 - std::pow(kFirstDecay, static_cast<double>(step));
  const double second_correction = 1 - std::pow(kSecondDecay, static_cast<double>(step));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    first[i] = kFirstDecay * first[i] + (1 - kFirstDecay) * gradient[i];
    second[i] = kSecondDecay * second[i] + (1 - kSecondDecay) * gradient[i] * gradient[i];
    const double scale = std::sqrt(second[i] / second_correction) + kEpsilon;
    parameters[i] -= learning_rate_ * (first[i] / first_correction) / scale;
  }
}

}  // namespace trainer
