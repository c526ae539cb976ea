// SPDX-License-Identifier: BSD-3-Clause
// The trainer's options: command line, file, environment, and what wins.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "reprieve/error.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"
#include "trainer/options.hpp"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
