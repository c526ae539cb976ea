// SPDX-License-Identifier: BSD-3-Clause
// The trainer's network: its gradient against finite differences, and what its scores mean.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/ranks.hpp"
#include "common/text.hpp"
#include "reprieve/error.hpp"
#include "reprieve/serializer.hpp"
#include "support/saved_pieces.hpp"
#include "trainer/model.hpp"
#include "trainer/report.hpp"
#include "trainer/state.hpp"

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

// The trainer's update rules, by hand and in slices.

TEST(Sgd, MovesByTheVelocity) {
  Optimizer optimizer(OptimizerKind::sgd, 0.5, 1);
  std::vector<double> parameter{1};
  optimizer.update(parameter, std::vector<double>{2}, 1);
  EXPECT_DOUBLE_EQ(parameter[0], 1 - 0.5 * 2);
  optimizer.update(parameter, std::vector<double>{0}, 2);
  EXPECT_DOUBLE_EQ(parameter[0], 0 - 0.5 * 0.9 * 2);
}

TEST(Adam, FirstStepsAreAsLongAsTheLearningRate) {
  Optimizer optimizer(OptimizerKind::adam, 0.01, 2);
  std::vector<double> parameters{0, 0};
  const std::vector<double> gradient{1e-3, -5};
  optimizer.update(parameters, gradient, 1);
  EXPECT_NEAR(parameters[0], -0.01, 1e-6);
  EXPECT_NEAR(parameters[1], 0.01, 1e-6);
  optimizer.update(parameters, gradient, 2);
  EXPECT_NEAR(parameters[0], -0.02, 1e-6);
  EXPECT_NEAR(parameters[1], 0.02, 1e-6);
}

class EveryOptimizer : public testing::TestWithParam<OptimizerKind> {};

TEST_P(EveryOptimizer, SlicesUpdateLikeTheWhole) {
  constexpr std::size_t kSize = 11;
  constexpr std::size_t kParts = 3;
  std::vector<double> whole(kSize, 1.0);
  std::vector<double> sliced = whole;
  Optimizer one(GetParam(), 0.1, kSize);
  std::vector<Optimizer> parts;
  for (std::size_t part = 0; part < kParts; ++part) {
    parts.emplace_back(GetParam(), 0.1, apps::slice_of(kSize, part, kParts).size);
  }
  for (std::uint64_t step = 1; step <= 5; ++step) {
    std::vector<double> gradient(kSize);
    for (std::size_t i = 0; i < kSize; ++i) {
      gradient[i] = std::sin(static_cast<double>(i + step));
    }
    one.update(whole, gradient, step);
    for (std::size_t part = 0; part < kParts; ++part) {
      const apps::Slice slice = apps::slice_of(kSize, part, kParts);
      parts[part].update(std::span(sliced).subspan(slice.offset, slice.size),
                         std::span<const double>(gradient).subspan(slice.offset, slice.size), step);
    }
  }
  EXPECT_EQ(sliced, whole);
}

TEST_P(EveryOptimizer, FindsTheMinimumOfAParabola) {
  Optimizer optimizer(GetParam(), 0.05, 1);
  std::vector<double> x{3};
  for (std::uint64_t step = 1; step <= 2000; ++step) {
    optimizer.update(x, std::vector<double>{2 * (x[0] - 1)}, step);
  }
  EXPECT_NEAR(x[0], 1, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryOptimizer, testing::Values(OptimizerKind::sgd, OptimizerKind::adam),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

TEST(Slices, CoverARangeInOrder) {
  for (std::size_t total : {0U, 1U, 7U, 64U}) {
    for (std::size_t parts = 1; parts <= 9; ++parts) {
      std::size_t next = 0;
      for (std::size_t part = 0; part < parts; ++part) {
        const apps::Slice slice = apps::slice_of(total, part, parts);
        ASSERT_EQ(slice.offset, next);
        ASSERT_LE(slice.size, total / parts + 1);
        ASSERT_GE(slice.size, total / parts);
        next += slice.size;
      }
      ASSERT_EQ(next, total);
    }
  }
}

// What the trainer registers, and per-rank state on another number of ranks.

using Pieces = reprieve::test::SavedPieces;

constexpr reprieve::ElementType kOpaque{reprieve::ElementClass::opaque, 1};

Pieces engines(int count) {
  std::vector<apps::Bytes> pieces;
  for (int rank = 0; rank < count; ++rank) {
    pieces.push_back(reprieve::Serializer<std::mt19937_64>::save(noise_engine_of(1, rank)));
  }
  return {kOpaque, std::move(pieces)};
}

apps::Bytes sums_bytes(double loss, double samples) {
  const std::array<double, 2> sums{loss, samples};
  apps::Bytes bytes(sizeof(sums));
  std::memcpy(bytes.data(), sums.data(), sizeof(sums));
  return bytes;
}

TEST(TrainerState, IsRegisteredUnderReadableNames) {
  const Model model({64, 8, 10});
  TrainingState state{.parameters = std::vector<double>(model.parameter_count()),
                      .sampler = Sampler(100, 1),
                      .progress = {},
                      .history = {},
                      .optimizer = Optimizer(OptimizerKind::adam, 0.1, model.parameter_count()),
                      .noise_engine = noise_engine_of(1, 0)};
  reprieve::Checkpoint checkpoint;
  register_state(checkpoint, state, model, {0, model.parameter_count()});
  for (const char* name : {"model/layer1/weights", "model/layer2/biases", "optimizer/first_moment",
                           "optimizer/second_moment", "data/shuffle_engine", "progress/epoch", "rank/noise_engine"}) {
    EXPECT_TRUE(checkpoint.contains(name)) << name;
  }
}

TEST(NoiseEngines, DifferByRankAndBySeed) {
  std::set<std::uint64_t> first_values;
  for (std::uint64_t seed : {1ULL, 2ULL, 1ULL << 40U}) {
    for (int rank = 0; rank < 8; ++rank) {
      first_values.insert(noise_engine_of(seed, rank)());
    }
  }
  EXPECT_EQ(first_values.size(), 24U);
}

TEST(NoiseEngines, OldRanksKeepTheirs) {
  const Pieces saved = engines(4);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(redistribute_engine(saved, rank), noise_engine_of(1, rank));
  }
}

TEST(NoiseEngines, NewRanksGetOnesThatNobodyHas) {
  const Pieces saved = engines(3);
  std::set<std::uint64_t> first_values;
  for (int rank = 0; rank < 9; ++rank) {
    auto engine = redistribute_engine(saved, rank);
    EXPECT_EQ(engine, redistribute_engine(saved, rank));
    first_values.insert(engine());
  }
  EXPECT_EQ(first_values.size(), 9U);
}

TEST(EpochSums, KeepTheirTotal) {
  const Pieces saved(kOpaque, {sums_bytes(1.5, 10), sums_bytes(2.25, 11), sums_bytes(4, 12)});
  EXPECT_EQ(redistribute_sums(saved, 0), (std::array<double, 2>{7.75, 33}));
  EXPECT_EQ(redistribute_sums(saved, 1), (std::array<double, 2>{0, 0}));
}

TEST(EpochSums, OfAnotherSizeAreAnError) {
  EXPECT_THROW(redistribute_sums(Pieces(kOpaque, {apps::Bytes(3)}), 0), reprieve::MismatchError);
}

TEST(Summary, HasItsKeysWhateverHappened) {
  Summary summary;
  summary.digests.all = 0xabc;
  auto json = nlohmann::json::parse(apps::text_of(to_json(summary)));
  EXPECT_EQ(json.at("status"), "finished");
  EXPECT_EQ(json.at("state_digest"), "0000000000000abc");
  EXPECT_TRUE(json.at("restored_from").is_null());
  EXPECT_TRUE(json.at("preemption").is_null());

  summary.restored_from = "ckpt-7.h5";
  summary.preemption = apps::Preemption{{2, "node", "signal SIGTERM", "", {}, {}}, 12, 0.25, "d/ckpt-12.h5"};
  json = nlohmann::json::parse(apps::text_of(to_json(summary)));
  EXPECT_EQ(json.at("status"), "preempted");
  EXPECT_EQ(json.at("restored_from"), "ckpt-7.h5");
  EXPECT_EQ(json.at("preemption").at("rank"), 2);
  EXPECT_EQ(json.at("preemption").at("save_step"), 12);
  EXPECT_EQ(json.at("preemption").at("seconds_from_notice_to_commit"), 0.25);
}

TEST(Report, Durations) {
  using std::chrono::seconds;
  EXPECT_EQ(apps::format_duration(seconds(0)), "0.0 s");
  EXPECT_EQ(apps::format_duration(std::chrono::milliseconds(9949)), "9.9 s");
  EXPECT_EQ(apps::format_duration(std::chrono::milliseconds(9951)), "10 s");
  EXPECT_EQ(apps::format_duration(seconds(59)), "59 s");
  EXPECT_EQ(apps::format_duration(seconds(185)), "3:05");
  EXPECT_EQ(apps::format_duration(seconds(3723)), "1:02:03");
}

}  // namespace
}  // namespace trainer
