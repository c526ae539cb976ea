// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/settings.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/log.hpp"
#include "settings/settings.hpp"
#include "support/error_text.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve {
namespace {

using namespace std::chrono_literals;
using OrderedJson = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::filesystem::path kConfigs = std::filesystem::path(REPRIEVE_SOURCE_DIR) / "configs";

std::string error_of(const std::string& text) {
  return test::error_text<ConfigError>([&] { settings_from_json(text); });
}

/// Sets variables for one test.
class SettingsEnvironment : public ::testing::Test {
 protected:
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  }
  void TearDown() override {
    for (const auto& name : names_) {
      ::unsetenv(name.c_str());
    }
  }

 private:
  std::vector<std::string> names_;
};

TEST(Settings, ReadsEverySection) {
  const auto settings = settings_from_json(R"({
    "directory": "/scratch/run",
    "termination": {"signals": ["SIGUSR2"], "restart_code": 75, "grace_period_s": 30.5, "save_every_steps": 100},
    "checkpoints": {"prefix": "net", "max_to_keep": 0, "keep_every_s": 3600, "writer": "mpio", "durable": false},
    "log": {"level": "debug", "other_ranks": "off"}})");
  EXPECT_EQ(settings.directory, "/scratch/run");
  EXPECT_THAT(*settings.termination.signals, ElementsAre(SIGUSR2));
  EXPECT_EQ(settings.termination.restart_code, 75);
  EXPECT_EQ(settings.termination.grace_period, 30500ms);
  EXPECT_EQ(settings.termination.save_every_steps, 100U);
  EXPECT_EQ(settings.manager.prefix, "net");
  EXPECT_EQ(settings.manager.max_to_keep, 0U);
  EXPECT_EQ(settings.manager.keep_every, 3600s);
  EXPECT_EQ(settings.manager.writer, WriterKind::mpio);
  EXPECT_FALSE(settings.manager.durable);
  EXPECT_EQ(settings.log.level, "debug");
  EXPECT_EQ(settings.log.other_ranks, "off");
}

TEST(Settings, WrittenSettingsReadBackAndOthersKeepTheirDefaults) {
  Settings settings;
  settings.directory = "somewhere";
  settings.termination.signals = std::vector{SIGINT, SIGTERM};
  settings.termination.platform = Platform::restart_managed;
  settings.termination.end_time = std::chrono::system_clock::time_point(1'800'000'000s);
  settings.termination.error_timeout = 1234ms;
  settings.manager.writer = WriterKind::mpio;
  settings.log.level = "error";
  const std::string text = to_json(settings);
  EXPECT_NE(text, to_json(Settings{}));
  EXPECT_EQ(to_json(settings_from_json(text)), text);
  EXPECT_EQ(to_json(settings_from_json("{}")), to_json(Settings{}));
}

TEST(Settings, MistakesAreNamedWithWhatIsAllowed) {
  EXPECT_EQ(error_of(R"({"termination": {"restart_code": 300}})"),
            "termination.restart_code: found 300; allowed: a whole number from 2 to 125, but not 110; or 143; or null: "
            "that of the platform [RPV-0801]");
  EXPECT_EQ(error_of(R"({"termination": {"restart_code": "42"}})"),
            "termination.restart_code: found \"42\"; allowed: a whole number from 2 to 125, but not 110; or 143; or "
            "null: that of the platform [RPV-0801]");
  EXPECT_EQ(error_of(R"({"checkpoints": {"writer": "fast"}})"),
            R"(checkpoints.writer: found "fast"; allowed: one of "direct", "mpio" [RPV-0801])");
  EXPECT_THAT(error_of(R"({"termination": {"signals": ["SIGKILL"]}})"), HasSubstr(R"(found ["SIGKILL"])"));
  EXPECT_THAT(error_of(R"({"checkpoints": {"prefix": "../x"}})"), HasSubstr("checkpoints.prefix: found \"../x\""));
  EXPECT_EQ(error_of(R"({"log": 3})"), "log: found 3; allowed: an object, {...} [RPV-0801]");
}

TEST(Settings, CompressionNeedsWritesPastThePageCache) {
  ManagerOptions options;
  options.compress = Compression::lz4;
  EXPECT_NO_THROW(validate(options));
  options.durable = false;
  EXPECT_THAT(test::error_text<ConfigError>([&] { validate(options); }), HasSubstr("set writer and io to direct"));
  options.io = FileIo::direct;
  EXPECT_NO_THROW(validate(options));
  options.writer = WriterKind::mpio;
  EXPECT_THROW(validate(options), ConfigError);
}

TEST(Settings, WhatIsLeftOpenIsNull) {
  const auto settings = settings_from_json(
      R"({"platform": "gce", "termination": {"restart_code": 143, "signals": null, "grace_period_s": null}})");
  EXPECT_EQ(settings.termination.platform, Platform::gce);
  EXPECT_EQ(settings.termination.restart_code, 143);
  EXPECT_FALSE(settings.termination.signals);
  EXPECT_FALSE(settings.termination.grace_period);
  EXPECT_FALSE(settings.termination.metadata);
  EXPECT_THAT(error_of(R"({"termination": {"save_every_steps": null}})"), HasSubstr("save_every_steps: found null"));
}

TEST(Settings, FormerOnesSayWhatBecameOfThem) {
  EXPECT_THAT(error_of(R"({"termination": {"check_interval_ms": 5}})"),
              StartsWith("termination.check_interval_ms: gone: "));
  for (const FormerSetting& former : former_settings()) {
    EXPECT_THAT(core::keys_of(all_settings()), ::testing::Not(::testing::Contains(std::string(former.key))));
    EXPECT_THAT(test::error_text<ConfigError>([&] {
                  static_cast<void>(settings::read({{settings::variable_of(std::string(former.key)), "1"}}));
                }),
                HasSubstr(std::string(former.fate)));
  }
}

TEST(Settings, AllMistakesAreToldAtOnce) {
  const auto error = error_of(R"({"directory": 3, "log": {"level": "loud"}, "nonsense": 1})");
  EXPECT_THAT(error, HasSubstr("directory: found 3"));
  EXPECT_THAT(error, HasSubstr("log.level: found \"loud\""));
  EXPECT_THAT(error, HasSubstr("nonsense: unknown"));
}

TEST(Settings, SectionsOfTheApplicationArePassedOver) {
  const std::string text = R"({"$schema": "reprieve.schema.json", "trainer": {"epochs": 3}})";
  EXPECT_NO_THROW(settings_from_json(text, {"trainer"}));
  EXPECT_THAT(error_of(text), HasSubstr("trainer: unknown"));
  EXPECT_THAT(test::error_text<ConfigError>([&] { settings_from_json(R"({"trainr": {}})", {"trainer"}); }),
              HasSubstr("did you mean trainer?"));
}

TEST(Settings, FileIsNamedInErrors) {
  const test::TemporaryDirectory directory;
  const auto file = directory / "job.json";
  std::ofstream(file) << R"({"log": {"level": "loud"}})";
  EXPECT_THAT(test::error_text<ConfigError>([&] { settings_from_file(file); }),
              StartsWith(file.string() + ": log.level: found"));
}

TEST(Settings, FileThatCannotBeReadIsAStorageError) {
  const test::TemporaryDirectory directory;
  for (const auto& file : {directory / "missing.json", directory.path()}) {
    EXPECT_THAT([&] { settings_from_file(file); },
                ::testing::Throws<StorageError>(
                    ::testing::AllOf(::testing::Property(&StorageError::code, ErrorCode::io),
                                     ::testing::Property(&StorageError::what, HasSubstr(file.string() + ": ")))));
  }
}

TEST_F(SettingsEnvironment, OverridesTheFile) {
  auto settings = settings_from_json(
      R"({"directory": "file", "platform": "aws", "termination": {"grace_period_s": 10, "metadata": "aws"}})");
  EXPECT_TRUE(settings.manager.read_environment);
  set("REPRIEVE_DIRECTORY", "environment");
  set("REPRIEVE_PLATFORM", "slurm");
  set("REPRIEVE_DEVICE", "gpu");
  set("REPRIEVE_TERMINATION_METADATA", "null");
  set("REPRIEVE_TERMINATION_END_TIME_S", "1800000000");
  set("REPRIEVE_TERMINATION_GRACE_PERIOD_S", "2.5");
  set("REPRIEVE_TERMINATION_SIGNALS", "SIGINT,SIGUSR2");
  set("REPRIEVE_CHECKPOINTS_DURABLE", "false");
  set("REPRIEVE_CHECKPOINTS_WRITER", "mpio");
  apply_environment(settings);
  EXPECT_FALSE(settings.manager.read_environment) << "once is enough";
  EXPECT_EQ(settings.directory, "environment");
  EXPECT_EQ(settings.termination.platform, Platform::slurm);
  EXPECT_EQ(settings.termination.device, Device::gpu);
  EXPECT_FALSE(settings.termination.metadata);
  EXPECT_EQ(settings.termination.end_time->time_since_epoch(), 1'800'000'000s);
  EXPECT_EQ(settings.termination.grace_period, 2500ms);
  EXPECT_THAT(*settings.termination.signals, ElementsAre(SIGINT, SIGUSR2));
  EXPECT_FALSE(settings.manager.durable);
  EXPECT_EQ(settings.manager.writer, WriterKind::mpio);
}

TEST_F(SettingsEnvironment, EverySettingHasAVariable) {
  const Settings defaults;
  for (const auto& row : all_settings()) {
    if (!row.from_environment) {
      EXPECT_EQ(row.key, "checkpoints.prefix");  // the program's own
      continue;
    }
    std::string name = "REPRIEVE_" + row.key;
    std::replace(name.begin(), name.end(), '.', '_');
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    const auto value = row.get(defaults);
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (value.is_array()) {
      text = value.at(0).get<std::string>() + "," + value.at(1).get<std::string>();
    }
    set(name, text);
  }
  Settings settings;
  ASSERT_NO_THROW(apply_environment(settings));
  EXPECT_EQ(to_json(settings), to_json(defaults));
}

TEST_F(SettingsEnvironment, MistakesNameTheVariable) {
  Settings settings;
  set("REPRIEVE_TERMINATION_GRACE_PERIOD_S", "soon");
  set("REPRIEVE_TERMINATION_GRACE_PERIOD", "30");
  set("REPRIEVE_TERMINATION_GRACE", "30");
  const auto error = test::error_text<ConfigError>([&] { apply_environment(settings); });
  EXPECT_THAT(error, HasSubstr("REPRIEVE_TERMINATION_GRACE_PERIOD_S: found \"soon\"; allowed: a number from 0"));
  EXPECT_THAT(error, HasSubstr("REPRIEVE_TERMINATION_GRACE_PERIOD: unknown; did you mean "
                               "REPRIEVE_TERMINATION_GRACE_PERIOD_S?"));
  EXPECT_THAT(error, HasSubstr("REPRIEVE_TERMINATION_GRACE: unknown; did you mean "
                               "REPRIEVE_TERMINATION_GRACE_MARGIN_S or REPRIEVE_TERMINATION_GRACE_PERIOD_S?"));
}

TEST_F(SettingsEnvironment, AnEmptyVariableIsNotSet) {
  Settings settings;
  settings.directory = "code";
  set("REPRIEVE_DIRECTORY", "");
  set("REPRIEVE_TERMINATION_GRACE_PERIOD_S", "");
  apply_environment(settings);
  EXPECT_EQ(settings.directory, "code");
  EXPECT_FALSE(settings.termination.grace_period);
}

TEST_F(SettingsEnvironment, WhatTheLibraryItselfSetsIsKnown) {
  set("REPRIEVE_RUN_DIR", "/tmp/run");
  set("REPRIEVE_SOMETHING_QUITE_DIFFERENT", "1");  // of a newer version, say
  Settings settings;
  EXPECT_NO_THROW(apply_environment(settings));
  EXPECT_EQ(to_json(settings), to_json(Settings{}));
}

TEST_F(SettingsEnvironment, WhatOnlyTheProgramCanSetIsRefused) {
  set("REPRIEVE_CHECKPOINTS_PREFIX", "mine");
  set("REPRIEVE_TERMINATION_SAVE_FN", "x");
  set("REPRIEVE_TERMINATION_RETURN_WHEN_SAVED", "true");
  Settings settings;
  const auto error = test::error_text<ConfigError>([&] { apply_environment(settings); });
  EXPECT_THAT(error, HasSubstr("REPRIEVE_CHECKPOINTS_PREFIX: only the program itself"));
  EXPECT_THAT(error, HasSubstr("REPRIEVE_TERMINATION_SAVE_FN: only the program itself"));
  EXPECT_THAT(error, HasSubstr("REPRIEVE_TERMINATION_RETURN_WHEN_SAVED: only the program itself"));
}

TEST(Settings, ValuesSetInCodeAreChecked) {
  TerminationConfig config;
  config.restart_code = 110;
  config.grace_period = -1s;
  config.signals = std::vector{SIGTERM, SIGSEGV};
  const auto error = test::error_text<ConfigError>([&] { validate(config); });
  EXPECT_THAT(error, HasSubstr("restart_code: found 110"));
  EXPECT_THAT(error, HasSubstr("grace_period_s: found -1"));
  EXPECT_THAT(error, HasSubstr("signals: found [\"SIGTERM\",11]"));

  ManagerOptions options;
  options.prefix = "a/b";
  EXPECT_THAT(test::error_text<ConfigError>([&] { validate(options); }), HasSubstr("prefix: found \"a/b\""));
}

TEST(Settings, PrefixesMustBeBeginningsOfFileNames) {
  ManagerOptions options;
  for (const char* good : {"ckpt", "a", "a.b", "step-", "\xc3\xa4"}) {
    options.prefix = good;
    EXPECT_NO_THROW(validate(options)) << good;
  }
  for (const std::string& bad : {std::string(), std::string(".hidden"), std::string("a/b"), std::string("/"),
                                 std::string("a\n"), std::string(".."), std::string("a\x7f"), std::string(181, 'p')}) {
    options.prefix = bad;
    EXPECT_THROW(validate(options), ConfigError) << bad;
  }
}

/// A limit that is a whole number is written as one.
OrderedJson limit(double value) {
  return value == std::floor(value) ? OrderedJson(std::llround(value)) : OrderedJson(value);
}

OrderedJson schema_of_value(const core::Rule& rule) {
  switch (rule.kind) {
    case core::Rule::Kind::flag:
      return {{"type", "boolean"}};
    case core::Rule::Kind::whole_number: {
      OrderedJson schema{{"type", "integer"}, {"minimum", limit(rule.min)}, {"maximum", limit(rule.max)}};
      if (!rule.excluded.empty()) {
        schema["not"] = {{"enum", rule.excluded}};
      }
      return schema;
    }
    case core::Rule::Kind::number:
      return {{"type", "number"}, {"minimum", limit(rule.min)}, {"maximum", limit(rule.max)}};
    case core::Rule::Kind::text:
      return rule.pattern.empty() ? OrderedJson{{"type", "string"}}
                                  : OrderedJson{{"type", "string"}, {"pattern", "^" + rule.pattern + "$"}};
    case core::Rule::Kind::choice:
      return {{"enum", rule.choices}};
    case core::Rule::Kind::list_of_choices:
      return {{"type", "array"}, {"items", {{"enum", rule.choices}}}};
  }
  return {};
}

OrderedJson schema_of(const core::Rule& rule) {
  OrderedJson choices = OrderedJson::array({schema_of_value(rule)});
  if (!rule.also.empty()) {
    choices.push_back({{"enum", rule.also}});
  }
  if (!rule.open.empty()) {
    choices.push_back({{"type", "null"}, {"description", rule.open}});
  }
  return choices.size() == 1 ? choices[0] : OrderedJson{{"anyOf", choices}};
}

/// The JSON schema of a settings file: the content of configs/reprieve.schema.json.
OrderedJson settings_schema() {
  OrderedJson properties{{"$schema", {{"type", "string"}}}};
  const Settings defaults;
  for (const auto& row : all_settings()) {
    OrderedJson schema{{"description", row.meaning}};
    schema.update(schema_of(row.rule));
    schema["default"] = row.get(defaults);
    const auto dot = row.key.find('.');
    if (dot == std::string::npos) {
      properties[row.key] = schema;
      continue;
    }
    auto& section = properties[row.key.substr(0, dot)];
    if (section.is_null()) {
      section = {{"type", "object"}, {"additionalProperties", false}, {"properties", OrderedJson::object()}};
    }
    section["properties"][row.key.substr(dot + 1)] = schema;
  }
  return {{"$schema", "http://json-schema.org/draft-07/schema#"},
          {"title", "Settings of Reprieve"},
          {"description", "Other sections belong to the application that reads the file."},
          {"type", "object"},
          {"additionalProperties", {{"type", "object"}}},
          {"properties", properties}};
}

TEST(Settings, SchemaIsThatOfTheTable) {
  const auto file = kConfigs / "reprieve.schema.json";
  EXPECT_EQ(OrderedJson::parse(test::read_text(file)), settings_schema()) << file << " should be:\n"
                                                                          << settings_schema().dump(2);
}

TEST(Settings, ExampleHoldsTheDefaults) {
  const auto file = kConfigs / "reprieve.json";
  EXPECT_EQ(to_json(settings_from_file(file)), to_json(Settings{}));
  auto document = nlohmann::json::parse(test::read_text(file));
  document.erase("$schema");
  EXPECT_EQ(document, nlohmann::json::parse(to_json(Settings{}))) << file << " leaves settings out";
}

TEST(Settings, LogLevelFollowsTheRank) {
  const LogOptions options{.level = "debug", .other_ranks = "error"};
  configure_logging(options, true);
  EXPECT_EQ(core::log::level(), "debug");
  configure_logging(options, false);
  EXPECT_EQ(core::log::level(), "error");
  configure_logging(LogOptions{}, true);
  EXPECT_THROW(configure_logging({.level = "loud", .other_ranks = "off"}, true), ConfigError);
}

}  // namespace
}  // namespace reprieve
