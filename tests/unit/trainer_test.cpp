// SPDX-License-Identifier: BSD-3-Clause
// Reading the digits, and files that are not them.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/ranks.hpp"
#include "reprieve/error.hpp"
#include "reprieve/serializer.hpp"
#include "support/error_text.hpp"
#include "support/process.hpp"
#include "support/saved_pieces.hpp"
#include "support/temporary_directory.hpp"
#include "trainer/dataset.hpp"
#include "trainer/model.hpp"
#include "trainer/training.hpp"

namespace trainer {
namespace {

using testing::HasSubstr;

const std::filesystem::path kDigits = REPRIEVE_SOURCE_DIR "/configs/digits.csv.gz";

std::string image(unsigned pixel, unsigned digit) {
  std::string line;
  for (std::size_t i = 0; i < kPixels; ++i) {
    line += std::to_string(pixel) + ",";
  }
  return line + std::to_string(digit) + "\n";
}

std::string config_error_of(const std::string& text) {
  return reprieve::test::error_text<reprieve::ConfigError>([&] { static_cast<void>(parse_digits(text, "test")); });
}

TEST(Digits, AreThere) {
  const Dataset digits = parse_digits(read_gzip(kDigits), kDigits.string());
  EXPECT_EQ(digits.training.labels.size(), 1437U);
  EXPECT_EQ(digits.held_out.labels.size(), 360U);
  EXPECT_EQ(digits.training.inputs.size(), 1437U * kPixels);
  const auto [least, greatest] = std::minmax_element(digits.training.inputs.begin(), digits.training.inputs.end());
  EXPECT_EQ(*least, 0);
  EXPECT_EQ(*greatest, 1);
  for (std::uint8_t digit = 0; digit < kClasses; ++digit) {
    EXPECT_GT(std::count(digits.held_out.labels.begin(), digits.held_out.labels.end(), digit), 20);
  }
}

TEST(Digits, EveryFifthIsHeldOut) {
  std::string text;
  for (unsigned i = 0; i < 10; ++i) {
    text += image(16, i);
  }
  const Dataset dataset = parse_digits(text, "test");
  EXPECT_EQ(dataset.held_out.labels, (std::vector<std::uint8_t>{0, 5}));
  EXPECT_EQ(dataset.training.labels, (std::vector<std::uint8_t>{1, 2, 3, 4, 6, 7, 8, 9}));
  EXPECT_EQ(dataset.training.inputs.front(), 1.0);
}

TEST(Digits, LineEndingsOfOtherSystemsAndAMissingLastOneAreFine) {
  std::string text = image(1, 2) + image(3, 4);
  text.pop_back();
  const Dataset unix_like = parse_digits(text, "test");
  text.replace(text.find('\n'), 1, "\r\n");
  const Dataset windows_like = parse_digits(text, "test");
  EXPECT_EQ(unix_like.training.inputs, windows_like.training.inputs);
  EXPECT_NE(unix_like.fingerprint, windows_like.fingerprint);
}

TEST(Digits, ErrorsNameTheLineAndTheProblem) {
  const std::string good = image(1, 2);
  EXPECT_THAT(config_error_of(good + "1,2,3\n"), HasSubstr("line 2: 3 values instead of 65"));
  EXPECT_THAT(config_error_of(good + "1," + good), HasSubstr("line 2: 66 values instead of 65"));
  EXPECT_THAT(config_error_of(good + image(17, 2)), HasSubstr("line 2: a pixel is greater than 16"));
  EXPECT_THAT(config_error_of(good + image(1, 10)), HasSubstr("line 2: digit 10"));
  EXPECT_THAT(config_error_of(good + "x" + good), HasSubstr("line 2: value 1 is not a number"));
  EXPECT_THAT(config_error_of(good + "-" + good), HasSubstr("line 2: value 1 is not a number"));
  EXPECT_THAT(config_error_of(good + "99999999999," + good), HasSubstr("line 2: value 1 is not a number that fits"));
  EXPECT_THAT(config_error_of(good + "\n" + good), HasSubstr("line 2: value 1 is not a number"));
  EXPECT_THAT(config_error_of(good + "1,"), HasSubstr("line 2: value 2 is not a number"));
  EXPECT_THAT(config_error_of(""), HasSubstr("fewer than two images"));
  EXPECT_THAT(config_error_of(good), HasSubstr("fewer than two images"));
}

class GzipFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& content) {
    const auto file = directory_.path() / "data.gz";
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

  static std::string compressed_digits() { return reprieve::test::read_text(kDigits); }

  static std::string storage_error_of(const std::filesystem::path& file) {
    return reprieve::test::error_text<reprieve::StorageError>([&] { static_cast<void>(read_gzip(file)); });
  }

  reprieve::test::TemporaryDirectory directory_;
};

TEST_F(GzipFile, MissingOnesAndDirectoriesAreErrors) {
  EXPECT_THAT(storage_error_of(directory_.path() / "none.gz"), HasSubstr("none.gz: No such file"));
  EXPECT_THAT(storage_error_of(directory_.path()), HasSubstr("directory"));
}

TEST_F(GzipFile, CutShortIsAnErrorWhereverItEnds) {
  const std::string whole = compressed_digits();
  for (const std::size_t size : {std::size_t{20}, whole.size() / 2, whole.size() - 8, whole.size() - 1}) {
    EXPECT_NE(storage_error_of(write(whole.substr(0, size))), "no error") << size;
  }
}

TEST_F(GzipFile, AFlippedBitIsAnError) {
  std::string corrupt = compressed_digits();
  corrupt[corrupt.size() / 2] = static_cast<char>(corrupt[corrupt.size() / 2] ^ 1);
  EXPECT_NE(storage_error_of(write(corrupt)), "no error");
}

TEST_F(GzipFile, TextThatIsNotCompressedIsTakenAsItIs) { EXPECT_EQ(read_gzip(write("1,2\n")), "1,2\n"); }

// The order of the training samples.

std::vector<std::uint32_t> copy(std::span<const std::uint32_t> batch) { return {batch.begin(), batch.end()}; }

TEST(Sampler, UsesEverySampleOncePerPassAndLeavesTheRemainderOut) {
  Sampler sampler(10, 1);
  for (int pass = 0; pass < 5; ++pass) {
    std::set<std::uint32_t> seen;
    for (int batch = 0; batch < 3; ++batch) {
      const auto indices = sampler.next(3);
      seen.insert(indices.begin(), indices.end());
    }
    EXPECT_EQ(seen.size(), 9U);
    EXPECT_LT(*seen.rbegin(), 10U);
  }
}

TEST(Sampler, ShufflesAnewInEveryPass) {
  Sampler sampler(50, 1);
  const auto first = copy(sampler.next(50));
  const auto second = copy(sampler.next(50));
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), second.begin(), second.end()));
}

TEST(Sampler, DependsOnItsSeedAlone) {
  EXPECT_EQ(copy(Sampler(50, 3).next(50)), copy(Sampler(50, 3).next(50)));
  EXPECT_NE(copy(Sampler(50, 3).next(50)), copy(Sampler(50, 4).next(50)));
}

TEST(Sampler, ContinuesFromACopyOfItsState) {
  Sampler original(20, 1);
  for (int i = 0; i < 7; ++i) {
    original.next(6);
  }
  Sampler restored(20, 99);
  restored.state() = original.state();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(copy(restored.next(6)), copy(original.next(6)));
  }
}

// The trainer's network: its gradient against finite differences, and what its scores mean.

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

// The trainer's options: command line, file, environment, and what wins.

using testing::ElementsAre;

Options parse(std::vector<std::string> arguments) {
  std::vector<const char*> argv{"reprieve-trainer"};
  for (const std::string& argument : arguments) {
    argv.push_back(argument.c_str());
  }
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

std::string trainer_config_error_of(const std::vector<std::string>& arguments) {
  return reprieve::test::error_text<reprieve::ConfigError>([&] { static_cast<void>(parse(arguments)); });
}

class TrainerConfig : public testing::Test {
 protected:
  std::string write(const std::string& content) {
    const auto file = directory_ / "config.json";
    std::ofstream(file) << content;
    return file.string();
  }
  std::string error_of_file(const std::string& content) {
    return trainer_config_error_of({"--config", write(content)});
  }

  reprieve::test::TemporaryDirectory directory_;
};

TEST(TrainerOptions, Defaults) {
  const Options options = parse({});
  EXPECT_EQ(options.answer, "");
  EXPECT_EQ(options.optimizer, OptimizerKind::adam);
  EXPECT_THAT(options.hidden, ElementsAre(64U));
  EXPECT_EQ(options.fail_rank, -1);
  EXPECT_EQ(options.settings.directory, "checkpoints");
  EXPECT_EQ(options.settings.termination.save_every_steps, 0U);
}

TEST(TrainerOptions, CommandLine) {
  const Options options =
      parse({"--hidden",         "32,16", "--optimizer",        "sgd",  "--learning-rate", "0.5",
             "--epochs",         "7",     "--step-delay-ms",    "20",   "--fail-point",    "begin",
             "--checkpoint-dir", "here",  "--checkpoint-every", "50",   "--max-to-keep",   "9",
             "--grace-period",   "2.5",   "--writer",           "mpio", "--log-level",     "debug"});
  EXPECT_THAT(options.hidden, ElementsAre(32U, 16U));
  EXPECT_EQ(options.optimizer, OptimizerKind::sgd);
  EXPECT_EQ(options.learning_rate, 0.5);
  EXPECT_EQ(options.epochs, 7U);
  EXPECT_EQ(options.step_delay, std::chrono::milliseconds(20));
  EXPECT_EQ(options.fail_point, FailPoint::begin);
  EXPECT_EQ(options.settings.directory, "here");
  EXPECT_EQ(options.settings.termination.save_every_steps, 50U);
  EXPECT_EQ(options.settings.manager.max_to_keep, 9U);
  EXPECT_EQ(options.settings.termination.grace_period, std::chrono::milliseconds(2500));
  EXPECT_EQ(options.settings.manager.writer, reprieve::WriterKind::mpio);
  EXPECT_EQ(options.settings.log.level, "debug");
}

TEST(TrainerOptions, HelpTeachesByExamples) {
  const std::string help = parse({"--help"}).answer;
  EXPECT_THAT(help, HasSubstr("mpirun -n 4 reprieve-trainer"));
  EXPECT_THAT(help, HasSubstr("--checkpoint-every"));
  EXPECT_THAT(parse({"--version"}).answer, HasSubstr("reprieve-trainer"));
}

TEST(TrainerOptions, MistakesNameTheOption) {
  EXPECT_THAT(trainer_config_error_of({"--epochs", "many"}), HasSubstr("--epochs"));
  EXPECT_THAT(trainer_config_error_of({"--epochs", "0"}), HasSubstr("--epochs"));
  EXPECT_THAT(trainer_config_error_of({"--epochs", "-1"}), HasSubstr("--epochs"));
  EXPECT_THAT(trainer_config_error_of({"--hidden", "0"}), HasSubstr("--hidden"));
  EXPECT_THAT(trainer_config_error_of({"--optimizer", "magic"}), HasSubstr("--optimizer"));
  EXPECT_THAT(trainer_config_error_of({"--learning-rate", "-1"}), HasSubstr("--learning-rate"));
  EXPECT_THAT(trainer_config_error_of({"--writer", "pen"}), HasSubstr("--writer"));
  EXPECT_THAT(trainer_config_error_of({"--epoch", "3"}), HasSubstr("--epoch"));
  EXPECT_THAT(trainer_config_error_of({"--config", "/nonexistent.json"}), HasSubstr("/nonexistent.json"));
}

TEST_F(TrainerConfig, FileGivesBothSections) {
  const Options options = parse({"--config", write(R"({
    "trainer": {"epochs": 3, "hidden": [20, 10], "optimizer": "sgd", "step_delay_ms": 5, "noise": 0},
    "termination": {"grace_period_s": 8}
  })")});
  EXPECT_EQ(options.epochs, 3U);
  EXPECT_THAT(options.hidden, ElementsAre(20U, 10U));
  EXPECT_EQ(options.optimizer, OptimizerKind::sgd);
  EXPECT_EQ(options.step_delay, std::chrono::milliseconds(5));
  EXPECT_EQ(options.noise, 0);
  EXPECT_EQ(options.settings.termination.grace_period, std::chrono::seconds(8));
}

TEST_F(TrainerConfig, CommandLineWinsOverEnvironmentOverFile) {
  const std::string file = write(R"({"trainer": {"epochs": 3, "seed": 5},
                                     "termination": {"grace_period_s": 8, "save_every_steps": 1},
                                     "checkpoints": {"max_to_keep": 2}})");
  ASSERT_EQ(setenv("REPRIEVE_TERMINATION_GRACE_PERIOD_S", "9", 1), 0);
  ASSERT_EQ(setenv("REPRIEVE_CHECKPOINTS_MAX_TO_KEEP", "3", 1), 0);
  const Options options = parse({"--config", file, "--epochs", "4", "--grace-period", "10"});
  ASSERT_EQ(unsetenv("REPRIEVE_TERMINATION_GRACE_PERIOD_S"), 0);
  ASSERT_EQ(unsetenv("REPRIEVE_CHECKPOINTS_MAX_TO_KEEP"), 0);
  EXPECT_EQ(options.epochs, 4U);
  EXPECT_EQ(options.seed, 5U);
  EXPECT_EQ(options.settings.termination.grace_period, std::chrono::seconds(10));
  EXPECT_EQ(options.settings.manager.max_to_keep, 3U);
  EXPECT_EQ(options.settings.termination.save_every_steps, 1U);
}

TEST_F(TrainerConfig, UnknownKeyIsAnErrorThatListsTheKnownOnes) {
  const std::string message = error_of_file(R"({"trainer": {"epoch": 3}})");
  EXPECT_THAT(message, HasSubstr("\"epoch\""));
  EXPECT_THAT(message, HasSubstr("batch_size"));
  EXPECT_THAT(error_of_file(R"({"trainer": {"batch-size": 3}})"), HasSubstr("\"batch-size\""));
  EXPECT_THAT(error_of_file(R"({"trainr": {}})"), HasSubstr("trainr"));
}

TEST_F(TrainerConfig, OptionsOfTheLibraryBelongToItsOwnSections) {
  EXPECT_THAT(error_of_file(R"({"trainer": {"max_to_keep": 3}})"), HasSubstr("unknown key \"max_to_keep\""));
  EXPECT_THAT(error_of_file(R"({"trainer": {"config": "x"}})"), HasSubstr("unknown key \"config\""));
}

TEST_F(TrainerConfig, WrongTypesAndValuesAreErrorsThatNameTheKey) {
  EXPECT_THAT(error_of_file(R"({"trainer": {"epochs": "3"}})"), HasSubstr("\"trainer.epochs\" must be a number"));
  EXPECT_THAT(error_of_file(R"({"trainer": {"epochs": [3]}})"), HasSubstr("\"trainer.epochs\" must be a number"));
  EXPECT_THAT(error_of_file(R"({"trainer": {"epochs": null}})"), HasSubstr("\"trainer.epochs\" must be a number"));
  EXPECT_THAT(error_of_file(R"({"trainer": {"epochs": 2.5}})"), HasSubstr("epochs"));
  EXPECT_THAT(error_of_file(R"({"trainer": {"epochs": 0}})"), HasSubstr("epochs"));
  EXPECT_THAT(error_of_file(R"({"trainer": {"hidden": [3, [4]]}})"), HasSubstr("trainer.hidden"));
  EXPECT_THAT(error_of_file(R"({"trainer": {"optimizer": 1}})"), HasSubstr("\"trainer.optimizer\" must be a string"));
  EXPECT_THAT(error_of_file(R"({"trainer": {"optimizer": "magic"}})"), HasSubstr("optimizer"));
  EXPECT_THAT(error_of_file(R"({"trainer": 3})"), HasSubstr("\"trainer\" must be an object"));
}

TEST_F(TrainerConfig, ABrokenFileIsAnError) {
  EXPECT_NE(error_of_file("{"), "no error");
  EXPECT_NE(error_of_file("[]"), "no error");
  EXPECT_NE(error_of_file(""), "no error");
}

TEST(TrainerOptions, TheExampleConfigurationIsValid) {
  const Options options = parse({"--config", REPRIEVE_SOURCE_DIR "/configs/trainer.json"});
  EXPECT_GT(options.epochs, 0U);
}

}  // namespace
}  // namespace trainer
