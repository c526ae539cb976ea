// SPDX-License-Identifier: BSD-3-Clause
// Reading the digits, and files that are not them.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "bench/measure.hpp"
#include "common/ranks.hpp"
#include "heat/grid.hpp"
#include "heat/simulation.hpp"
#include "reprieve/error.hpp"
#include "support/error_text.hpp"
#include "support/process.hpp"
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

TEST_F(GzipFile, CutShortAnywhereOrWithAFlippedBitIsAnError) {
  const std::string whole = compressed_digits();
  for (const std::size_t size : {std::size_t{20}, whole.size() / 2, whole.size() - 8, whole.size() - 1}) {
    EXPECT_NE(storage_error_of(write(whole.substr(0, size))), "no error") << size;
  }
  std::string corrupt = whole;
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

TEST(Model, NoSamplesGiveNothing) {
  const Model model({4, 3});
  std::vector<double> gradient(model.parameter_count());
  const Score score = model.add_gradient(std::vector<double>(model.parameter_count(), 1.0), {}, gradient);
  EXPECT_EQ(score.samples, 0);
  EXPECT_EQ(score.loss, 0);
  EXPECT_EQ(gradient, std::vector<double>(model.parameter_count()));
}

TEST(Model, HugeWeightsGiveFiniteLosses) {
  const Model model({2, 2});
  const Samples samples{{1, 1, 1, 1}, {0, 1}};
  const Score score = model.evaluate(std::vector<double>{1e5, -1e5, 1e5, -1e5, 0, 0}, samples);
  EXPECT_TRUE(std::isfinite(score.loss));
  EXPECT_GT(score.loss, 100);
  EXPECT_EQ(score.correct, 1);
}

// The trainer's update rules, by hand and in slices.

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

TEST_F(TrainerConfig, WhatIsWrongInAFileIsNamed) {
  for (const auto& [trainer, message] : std::vector<std::pair<const char*, const char*>>{
           {R"({"epoch": 3})", "\"epoch\""},
           {R"({"epoch": 3})", "batch_size"},
           {R"({"batch-size": 3})", "\"batch-size\""},
           {R"({"max_to_keep": 3})", "unknown key \"max_to_keep\""},  // the library's, in its own section
           {R"({"config": "x"})", "unknown key \"config\""},
           {R"({"epochs": "3"})", "\"trainer.epochs\" must be a number"},
           {R"({"epochs": [3]})", "\"trainer.epochs\" must be a number"},
           {R"({"epochs": null})", "\"trainer.epochs\" must be a number"},
           {R"({"epochs": 2.5})", "epochs"},
           {R"({"epochs": 0})", "epochs"},
           {R"({"hidden": [3, [4]]})", "trainer.hidden"},
           {R"({"optimizer": 1})", "\"trainer.optimizer\" must be a string"},
           {R"({"optimizer": "magic"})", "optimizer"},
           {"3", "\"trainer\" must be an object"}}) {
    EXPECT_THAT(error_of_file(std::string(R"({"trainer": )") + trainer + "}"), HasSubstr(message)) << trainer;
  }
  EXPECT_THAT(error_of_file(R"({"trainr": {}})"), HasSubstr("trainr"));
  for (const char* broken : {"{", "[]", ""}) {
    EXPECT_NE(error_of_file(broken), "no error") << broken;
  }
}

TEST(TrainerOptions, TheExampleConfigurationIsValid) {
  const Options options = parse({"--config", REPRIEVE_SOURCE_DIR "/configs/trainer.json"});
  EXPECT_GT(options.epochs, 0U);
}

}  // namespace
}  // namespace trainer

// The split of the heat equation, and its options. That every point is computed and rightly, the runs of tests/e2e
// show.

namespace heat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HeatGrid, TheLongestDimensionIsCutMostOften) {
  EXPECT_THAT(matched_to({10, 30, 20}, {3, 2, 1}), ElementsAre(1, 3, 2));
  EXPECT_THAT(matched_to({5, 5, 5}, {1, 2, 1}), ElementsAre(2, 1, 1));
}

TEST(HeatMode, RefusesWavesThatTheGridCannotShow) {
  EXPECT_NO_THROW(SineMode({{4, 4, 4}, Boundary::dirichlet}, {4, 4, 4}));
  EXPECT_THROW(SineMode({{4, 4, 4}, Boundary::dirichlet}, {1, 1, 5}), reprieve::ConfigError);
  EXPECT_NO_THROW(SineMode({{5, 5, 5}, Boundary::periodic}, {2, 2, 2}));
  EXPECT_THROW(SineMode({{4, 4, 4}, Boundary::periodic}, {2, 1, 1}), reprieve::ConfigError);
  EXPECT_THROW(SineMode({{1, 1, 1}, Boundary::periodic}, {1, 1, 1}), reprieve::ConfigError);
}

Options parse(std::vector<std::string> arguments) {
  std::vector<const char*> argv{"reprieve-heat"};
  for (const std::string& argument : arguments) {
    argv.push_back(argument.c_str());
  }
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

std::string heat_config_error_of(const std::vector<std::string>& arguments) {
  return reprieve::test::error_text<reprieve::ConfigError>([&] { static_cast<void>(parse(arguments)); });
}

TEST(HeatOptions, ThreeNumbersAreXYZ) {
  const Options options = parse({"--grid", "10,20,30", "--modes", "1,2,3", "--ranks", "4,0,1"});
  EXPECT_THAT(options.points, ElementsAre(30, 20, 10));
  EXPECT_THAT(options.modes, ElementsAre(3, 2, 1));
  EXPECT_THAT(options.ranks, ElementsAre(1, 0, 4));
}

TEST(HeatOptions, FromAFile) {
  const reprieve::test::TemporaryDirectory directory;
  const auto file = directory / "heat.json";
  std::ofstream(file) << R"({"directory": "there", "heat": {"grid": [8, 9, 10], "boundary": "periodic",
    "time_step": 0.5, "progress": 7, "steps": 12}})";
  const Options options = parse({"--config", file.string(), "--steps", "13"});
  EXPECT_THAT(options.points, ElementsAre(10, 9, 8));
  EXPECT_EQ(options.boundary, Boundary::periodic);
  EXPECT_EQ(options.time_step_fraction, 0.5);
  EXPECT_EQ(options.progress_interval, std::chrono::seconds(7));
  EXPECT_EQ(options.steps, 13U) << "the command line goes first";
  EXPECT_EQ(options.settings.directory, "there");
}

TEST(HeatOptions, WrongOnesAreErrorsThatNameThem) {
  EXPECT_THAT(heat_config_error_of({"--grid", "10,20"}), HasSubstr("--grid"));
  EXPECT_THAT(heat_config_error_of({"--grid", "10,20,30,40"}), HasSubstr("--grid"));
  EXPECT_THAT(heat_config_error_of({"--grid", "10,20,0"}), HasSubstr("--grid"));
  EXPECT_THAT(heat_config_error_of({"--boundary", "open"}), HasSubstr("--boundary"));
  EXPECT_THAT(heat_config_error_of({"--time-step", "1.5"}), HasSubstr("--time-step"));
  EXPECT_THAT(heat_config_error_of({"--steps", "0"}), HasSubstr("--steps"));
  EXPECT_THAT(heat_config_error_of({"--no-such"}), HasSubstr("reprieve-heat --help"));
}

TEST(HeatOptions, HelpAndVersionAreAnswers) {
  EXPECT_THAT(parse({"--help"}).answer, HasSubstr("--grid"));
  EXPECT_THAT(parse({"--version"}).answer, HasSubstr("reprieve-heat"));
}

}  // namespace
}  // namespace heat

// The power law that fits measurements best.

namespace reprieve::bench {
namespace {

TEST(FittedExponent, IsTheLeastSquaresOfLogarithms) {
  const std::vector<double> sizes{1, 10, 100, 1000};
  for (const double exponent : {-1.0, 0.0, 0.5, 1.0, 2.0}) {
    std::vector<double> costs;
    for (const double size : sizes) {
      costs.push_back(3e-6 * std::pow(size, exponent));
    }
    EXPECT_NEAR(fitted_exponent(sizes, costs), exponent, 1e-12) << "that of a power law";
  }
  EXPECT_NEAR(fitted_exponent({2, 8}, {5, 10}), 0.5, 1e-12) << "the slope between two points";
  // Errors of equal size in logarithms, above and below in turn, leave the slope between the outer points.
  EXPECT_NEAR(fitted_exponent({1, 2, 4, 8}, {1, 4, 4, 16}), 1.2, 1e-12);
}

}  // namespace
}  // namespace reprieve::bench
