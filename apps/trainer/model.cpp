// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace trainer {

namespace {

/// outputs = inputs * weights + biases, for every sample.
std::vector<double> dense(const LayerView& layer, std::span<const double> parameters, const std::vector<double>& inputs,
                          std::size_t samples) {
  const double* const weights = &parameters[layer.weights];
  const double* const biases = &parameters[layer.biases];
  std::vector<double> outputs(samples * layer.outputs);
  for (std::size_t s = 0; s < samples; ++s) {
    double* const out = &outputs[s * layer.outputs];
    std::copy_n(biases, layer.outputs, out);
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      const double input = inputs[s * layer.inputs + i];
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        out[o] += input * weights[i * layer.outputs + o];
      }
    }
  }
  return outputs;
}

/// Turns every row of @p classes values into probabilities; the maximum is subtracted so that exp cannot overflow.
void softmax(std::vector<double>& values, std::size_t classes) {
  for (auto row = values.begin(); row != values.end(); row += static_cast<std::ptrdiff_t>(classes)) {
    const auto end = row + static_cast<std::ptrdiff_t>(classes);
    const double largest = *std::max_element(row, end);
    double sum = 0;
    for (auto value = row; value != end; ++value) {
      *value = std::exp(*value - largest);
      sum += *value;
    }
    std::for_each(row, end, [sum](double& value) { value /= sum; });
  }
}

/// Adds the gradient of one layer's parameters, given that of its outputs.
void add_layer_gradient(const LayerView& layer, const std::vector<double>& inputs, const std::vector<double>& delta,
                        std::size_t samples, std::span<double> gradient) {
  double* const weights = &gradient[layer.weights];
  double* const biases = &gradient[layer.biases];
  for (std::size_t s = 0; s < samples; ++s) {
    const double* const row = &delta[s * layer.outputs];
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      const double input = inputs[s * layer.inputs + i];
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        weights[i * layer.outputs + o] += input * row[o];
      }
    }
    for (std::size_t o = 0; o < layer.outputs; ++o) {
      biases[o] += row[o];
    }
  }
}

/// The gradient of the loss by a layer's inputs, which are outputs of a ReLU.
std::vector<double> input_delta(const LayerView& layer, std::span<const double> parameters,
                                const std::vector<double>& inputs, const std::vector<double>& delta,
                                std::size_t samples) {
  const double* const weights = &parameters[layer.weights];
  std::vector<double> result(samples * layer.inputs);
  for (std::size_t s = 0; s < samples; ++s) {
    const double* const row = &delta[s * layer.outputs];
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      if (inputs[s * layer.inputs + i] > 0) {
        double sum = 0;
        for (std::size_t o = 0; o < layer.outputs; ++o) {
          sum += row[o] * weights[i * layer.outputs + o];
        }
        result[s * layer.inputs + i] = sum;
      }
    }
  }
  return result;
}

constexpr double kMomentum = 0.9;
constexpr double kFirstDecay = 0.9;
constexpr double kSecondDecay = 0.999;
constexpr double kEpsilon = 1e-8;

}  // namespace

Model::Model(std::vector<std::size_t> layer_sizes) : layer_sizes_(std::move(layer_sizes)) {
  for (std::size_t l = 0; l + 1 < layer_sizes_.size(); ++l) {
    const std::size_t inputs = layer_sizes_[l];
    const std::size_t outputs = layer_sizes_[l + 1];
    layers_.push_back({inputs, outputs, parameter_count_, parameter_count_ + inputs * outputs});
    parameter_count_ += (inputs + 1) * outputs;
  }
}

std::vector<double> Model::initial_parameters(std::mt19937_64& engine) const {
  std::vector<double> parameters(parameter_count_);
  for (const LayerView& layer : layers_) {
    std::normal_distribution<double> normal(0, std::sqrt(2.0 / static_cast<double>(layer.inputs)));
    std::generate_n(&parameters[layer.weights], layer.inputs * layer.outputs, [&] { return normal(engine); });
  }
  return parameters;
}

Model::Activations Model::forward(std::span<const double> parameters, const Samples& samples) const {
  Activations activations;
  for (const LayerView& layer : layers_) {
    const std::vector<double>& inputs = activations.empty() ? samples.inputs : activations.back();
    std::vector<double> outputs = dense(layer, parameters, inputs, samples.labels.size());
    if (&layer == &layers_.back()) {
      softmax(outputs, layer.outputs);
    } else {
      std::ranges::transform(outputs, outputs.begin(), [](double value) { return std::max(value, 0.0); });
    }
    activations.push_back(std::move(outputs));
  }
  return activations;
}

Score Model::score(const std::vector<double>& probabilities, const Samples& samples) const {
  const std::size_t classes = layer_sizes_.back();
  Score score;
  for (std::size_t s = 0; s < samples.labels.size(); ++s) {
    const double* const row = &probabilities[s * classes];
    const std::size_t label = samples.labels[s];
    // A probability that underflowed to zero would make the loss infinite.
    score.loss -= std::log(std::max(row[label], std::numeric_limits<double>::min()));
    score.correct += std::max_element(row, row + classes) == row + label ? 1 : 0;
    score.samples += 1;
  }
  return score;
}

Score Model::add_gradient(std::span<const double> parameters, const Samples& samples,
                          std::span<double> gradient) const {
  const std::size_t count = samples.labels.size();
  const Activations activations = forward(parameters, samples);
  // The gradient of cross-entropy after softmax by the softmax's input is (probabilities - one-hot labels).
  std::vector<double> delta = activations.back();
  for (std::size_t s = 0; s < count; ++s) {
    delta[s * layer_sizes_.back() + samples.labels[s]] -= 1;
  }
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const std::vector<double>& inputs = l == 0 ? samples.inputs : activations[l - 1];
    add_layer_gradient(layers_[l], inputs, delta, count, gradient);
    if (l > 0) {
      delta = input_delta(layers_[l], parameters, inputs, delta, count);
    }
  }
  return score(activations.back(), samples);
}

Score Model::evaluate(std::span<const double> parameters, const Samples& samples) const {
  return score(forward(parameters, samples).back(), samples);
}

std::string_view name_of(OptimizerKind kind) noexcept { return kind == OptimizerKind::sgd ? "sgd" : "adam"; }

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
  if (kind_ == OptimizerKind::adam) {
    return update_adam(parameters, gradient, step);
  }
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
