// SPDX-License-Identifier: BSD-3-Clause
// The trainer's network: its gradient against finite differences, and what its scores mean.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

#include "trainer/model.hpp"

namespace trainer {
namespace {

Samples random_samples(std::size_t count, std::size_t inputs, std::size_t classes, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Samples samples;
  for (std::size_t i = 0; i < count * inputs; ++i) {
    samples.inputs.push_back(normal(engine));
  }
  for (std::size_t i = 0; i < count; ++i) {
    samples.labels.push_back(static_cast<std::uint8_t>(engine() % classes));
  }
  return samples;
}

class Gradient : public testing::TestWithParam<std::vector<std::size_t>> {};

TEST_P(Gradient, EqualsFiniteDifferences) {
  const Model model(GetParam());
  std::mt19937_64 engine(7);
  std::vector<double> parameters = model.initial_parameters(engine);
  const Samples samples = random_samples(5, GetParam().front(), GetParam().back(), 8);
  std::vector<double> gradient(model.parameter_count());
  model.add_gradient(parameters, samples, gradient);

  constexpr double kStep = 1e-6;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double value = parameters[i];
    parameters[i] = value + kStep;
    const double above = model.evaluate(parameters, samples).loss;
    parameters[i] = value - kStep;
    const double below = model.evaluate(parameters, samples).loss;
    parameters[i] = value;
    ASSERT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-6) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Gradient,
                         testing::Values(std::vector<std::size_t>{4, 3}, std::vector<std::size_t>{4, 6, 3},
                                         std::vector<std::size_t>{3, 5, 4, 2}));

TEST(Model, LaysItsLayersOutWithoutGapsOrOverlap) {
  const Model model({4, 6, 3});
  EXPECT_EQ(model.parameter_count(), 4U * 6 + 6 + 6 * 3 + 3);
  ASSERT_EQ(model.layers().size(), 2U);
  EXPECT_EQ(model.layers()[0].weights, 0U);
  EXPECT_EQ(model.layers()[0].biases, 24U);
  EXPECT_EQ(model.layers()[1].weights, 30U);
  EXPECT_EQ(model.layers()[1].biases, 48U);
}

TEST(Model, GradientOfABatchIsTheSumOverItsParts) {
  const Model model({4, 6, 3});
  std::mt19937_64 engine(1);
  const std::vector<double> parameters = model.initial_parameters(engine);
  const Samples whole = random_samples(6, 4, 3, 2);
  const Samples first{{whole.inputs.begin(), whole.inputs.begin() + 8},
                      {whole.labels.begin(), whole.labels.begin() + 2}};
  const Samples rest{{whole.inputs.begin() + 8, whole.inputs.end()}, {whole.labels.begin() + 2, whole.labels.end()}};
  std::vector<double> expected(model.parameter_count());
  std::vector<double> summed(model.parameter_count());
  const Score score = model.add_gradient(parameters, whole, expected);
  const Score first_score = model.add_gradient(parameters, first, summed);
  const Score rest_score = model.add_gradient(parameters, rest, summed);
  for (std::size_t i = 0; i < summed.size(); ++i) {
    ASSERT_NEAR(summed[i], expected[i], 1e-12);
  }
  EXPECT_NEAR(first_score.loss + rest_score.loss, score.loss, 1e-12);
  EXPECT_EQ(first_score.samples + rest_score.samples, score.samples);
}

TEST(Model, NoSamplesGiveNothing) {
  const Model model({4, 3});
  std::vector<double> gradient(model.parameter_count());
  const Score score = model.add_gradient(std::vector<double>(model.parameter_count(), 1.0), {}, gradient);
  EXPECT_EQ(score.samples, 0);
  EXPECT_EQ(score.loss, 0);
  EXPECT_EQ(gradient, std::vector<double>(model.parameter_count()));
}

TEST(Model, AnUntrainedNetworkOfZerosGuesses) {
  const Model model({4, 10});
  const Samples samples = random_samples(20, 4, 10, 3);
  const Score score = model.evaluate(std::vector<double>(model.parameter_count()), samples);
  EXPECT_NEAR(score.loss / score.samples, std::log(10.0), 1e-12);
}

TEST(Model, HugeWeightsGiveFiniteLosses) {
  const Model model({2, 2});
  const Samples samples{{1, 1, 1, 1}, {0, 1}};
  const Score score = model.evaluate(std::vector<double>{1e5, -1e5, 1e5, -1e5, 0, 0}, samples);
  EXPECT_TRUE(std::isfinite(score.loss));
  EXPECT_GT(score.loss, 100);
  EXPECT_EQ(score.correct, 1);
}

TEST(Model, InitialWeightsHaveTheVarianceOfHeAndBiasesAreZero) {
  const Model model({100, 200, 2});
  std::mt19937_64 engine(4);
  const std::vector<double> parameters = model.initial_parameters(engine);
  const double squares = std::inner_product(parameters.begin(), parameters.begin() + 20'000, parameters.begin(), 0.0);
  EXPECT_NEAR(squares / 20'000, 2.0 / 100, 0.002);
  EXPECT_EQ(parameters[model.layers()[0].biases], 0);
  EXPECT_EQ(parameters.back(), 0);
}

}  // namespace
}  // namespace trainer
