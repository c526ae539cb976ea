// SPDX-License-Identifier: BSD-3-Clause

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/setting.hpp"
#include "core/strict_json.hpp"
#include "reprieve/error.hpp"
#include "support/error_text.hpp"

namespace reprieve::core {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

enum class Colour { red, green };

struct Sample {
  bool on = true;
  int count = 5;
  std::uint64_t steps = 0;
  std::string name = "x";
  std::chrono::milliseconds pause{1500};
  std::chrono::seconds span{2};
  Colour colour = Colour::green;
  std::vector<Colour> colours;
};

const Names<Colour> kColours{{"red", Colour::red}, {"green", Colour::green}};

template <class S>
bool accepts(const S& setting, const Json& value) {
  return permits(setting.rule, value);
}

Sample with(const Setting<Sample>& setting, const Json& value) {
  Sample sample;
  setting.set(sample, value);
  return sample;
}

TEST(Setting, Flag) {
  const auto setting = flag("on", &Sample::on, "");
  EXPECT_TRUE(accepts(setting, false));
  EXPECT_FALSE(accepts(setting, 0));
  EXPECT_FALSE(accepts(setting, "true"));
  EXPECT_FALSE(with(setting, false).on);
  EXPECT_EQ(setting.get({}), Json(true));
}

TEST(Setting, WholeNumber) {
  const auto setting = whole_number("count", &Sample::count, {2, 10}, "", {7});
  for (const int good : {2, 5, 10}) {
    EXPECT_TRUE(accepts(setting, good)) << good;
  }
  for (const Json& bad : {Json(1), Json(11), Json(7), Json(2.5), Json(3.0), Json("3"), Json(nullptr), Json(true)}) {
    EXPECT_FALSE(accepts(setting, bad)) << bad;
  }
  EXPECT_EQ(with(setting, 3).count, 3);
  EXPECT_EQ(allowed(setting.rule), "a whole number from 2 to 10, but not 7");
  const auto steps = whole_number("steps", &Sample::steps, {0, 1e15}, "");
  EXPECT_FALSE(accepts(steps, std::numeric_limits<std::uint64_t>::max())) << "beyond the signed range";
  EXPECT_FALSE(accepts(steps, -1));
}

TEST(Setting, TextWithAPattern) {
  const auto setting = text("name", &Sample::name, "", "[a-z]+", "small letters");
  EXPECT_TRUE(accepts(setting, "abc"));
  EXPECT_FALSE(accepts(setting, "aBc"));
  EXPECT_FALSE(accepts(setting, ""));
  EXPECT_FALSE(accepts(setting, 3));
  EXPECT_EQ(allowed(setting.rule), "small letters");
}

TEST(Setting, DurationTakesFractionsWhereTheyCanBeKept) {
  const auto fine = duration<std::ratio<1>>("pause_s", &Sample::pause, {0, 100}, "");
  EXPECT_EQ(with(fine, 0.25).pause, 250ms);
  EXPECT_EQ(with(fine, 12.3).pause, 12300ms);
  EXPECT_EQ(with(fine, 3).pause, 3s);
  EXPECT_EQ(fine.get({}), Json(1.5));
  EXPECT_FALSE(accepts(fine, -0.1));
  EXPECT_FALSE(accepts(fine, 100.1));

  const auto coarse = duration<std::ratio<1>>("span_s", &Sample::span, {0, 100}, "");
  EXPECT_FALSE(accepts(coarse, 0.5));
  EXPECT_EQ(with(coarse, 7).span, 7s);

  const auto small = duration<std::milli>("pause_ms", &Sample::pause, {0, 100}, "");
  EXPECT_EQ(with(small, 7).pause, 7ms);
  EXPECT_FALSE(accepts(small, 0.5));
}

TEST(Setting, DurationIsWrittenAsItIsRead) {
  const auto setting = duration<std::ratio<1>>("pause_s", &Sample::pause, {0, 1e9}, "");
  for (const auto pause : {0ms, 1ms, 999ms, 1000ms, 1001ms, 31'536'000'001ms}) {
    Sample sample;
    sample.pause = pause;
    EXPECT_EQ(with(setting, Json::parse(setting.get(sample).dump())).pause, pause);
  }
  EXPECT_EQ(with(setting, 0.0001).pause, 1ms) << "more than nothing stays so";
}

TEST(Setting, Choice) {
  const auto setting = choice("colour", &Sample::colour, kColours, "");
  EXPECT_TRUE(accepts(setting, "red"));
  EXPECT_FALSE(accepts(setting, "Red"));
  EXPECT_EQ(with(setting, "red").colour, Colour::red);
  EXPECT_EQ(setting.get({}), Json("green"));
  EXPECT_EQ(allowed(setting.rule), R"(one of "red", "green")");
}

TEST(Setting, ListOfChoices) {
  const auto setting = list_of_choices("colours", &Sample::colours, kColours, "");
  EXPECT_TRUE(accepts(setting, Json::array()));
  EXPECT_FALSE(accepts(setting, Json::array({"red", "blue"})));
  EXPECT_FALSE(accepts(setting, "red"));
  EXPECT_EQ(with(setting, Json::array({"green", "red"})).colours, (std::vector{Colour::green, Colour::red}));
}

TEST(Setting, ValuesSetInCodeAreCheckedByTheSameRules) {
  const Table<Sample> table{whole_number("count", &Sample::count, {2, 10}, ""),
                            choice("colour", &Sample::colour, kColours, "")};
  EXPECT_NO_THROW(check_all(table, Sample{}));
  Sample sample;
  sample.count = 11;
  sample.colour = static_cast<Colour>(9);
  EXPECT_EQ(test::error_text<ConfigError>([&] { check_all(table, sample); }),
            "count: found 11; allowed: a whole number from 2 to 10 [RPV-0801]\n"
            "colour: found 9; allowed: one of \"red\", \"green\"");
}

TEST(Setting, TextsOfTheEnvironmentBecomeValues) {
  const auto of = [](Rule::Kind kind, const char* text) { return value_from_text(Rule{.kind = kind}, text); };
  EXPECT_EQ(of(Rule::Kind::flag, "true"), Json(true));
  EXPECT_EQ(of(Rule::Kind::number, "0.5"), Json(0.5));
  EXPECT_EQ(of(Rule::Kind::whole_number, "7"), Json(7));
  EXPECT_EQ(of(Rule::Kind::whole_number, "7x"), Json("7x"));
  EXPECT_EQ(of(Rule::Kind::number, ""), Json(""));
  EXPECT_EQ(of(Rule::Kind::number, "nan"), Json("nan"));
  EXPECT_EQ(of(Rule::Kind::text, "17"), Json("17"));
  EXPECT_EQ(of(Rule::Kind::list_of_choices, "a,b"), Json::array({"a", "b"}));
  EXPECT_EQ(of(Rule::Kind::list_of_choices, ""), Json::array());
}

std::string unknown(const std::string& key) {
  Problems problems;
  problems.add_unknown(key, {"alpha", "beta_s"}, {"alpha", "beta_s", "one.grace_period_s", "one.timeout_s"});
  return test::error_text<ConfigError>([&] { problems.throw_if_any(); });
}

TEST(Setting, UnknownKeysGetTheNearestOneThatThereIs) {
  EXPECT_EQ(unknown("alhpa"), "alhpa: unknown; allowed: alpha, beta_s [RPV-0801]");
  EXPECT_EQ(unknown("alpa"), "alpa: unknown; did you mean alpha? [RPV-0801]");
  EXPECT_EQ(unknown("one.grace_periode_s"),
            "one.grace_periode_s: unknown; did you mean one.grace_period_s? [RPV-0801]");
  EXPECT_EQ(unknown("one.grace_period"), "one.grace_period: unknown; did you mean one.grace_period_s? [RPV-0801]");
  EXPECT_EQ(unknown("timeout_s"), "timeout_s: unknown; did you mean one.timeout_s? [RPV-0801]");
  EXPECT_EQ(unknown("colour"), "colour: unknown; allowed: alpha, beta_s [RPV-0801]");
}

std::string error_of(const std::string& text) {
  return test::error_text<ConfigError>([&] { parse_object(text); });
}

TEST(StrictJson, NamesWhatIsNoObjectAndWhere) {
  EXPECT_THAT(error_of("{\n  \"a\": 1,\n}"), HasSubstr("line 3, column 1"));
  EXPECT_EQ(error_of("{\"a\": nul}"), "not valid JSON: line 1, column 10 [RPV-0801]");
  EXPECT_THAT(error_of(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("found [1]; allowed: an object"));
}

TEST(StrictJson, ErrorsOfTheJsonLibraryAreSaidInOwnWords) {
  const auto reason = [](const auto& use) -> std::string {
    try {
      use(nlohmann::json{{"a", 1}});
    } catch (const nlohmann::json::exception& error) {
      return reason_of(error);
    }
    return "no error";
  };
  EXPECT_EQ(reason([](const auto& json) { static_cast<void>(json.at("it's")); }), "the key 'it's' is missing");
  EXPECT_EQ(reason([](const auto& json) { static_cast<void>(json.at("a").template get<std::string>()); }),
            "a value is of another type than it must be");
  EXPECT_EQ(reason([](const auto&) { [[maybe_unused]] const auto never = nlohmann::json::parse("[1,]"); }),
            "no JSON at the byte 4");
}

TEST(StrictJson, ReadsAnObjectAndFindsKeysThatComeTwice) {
  EXPECT_EQ(parse_object(R"({"a": {"b": [1, {"b": 2}]}, "b": 3})").at("a").at("b").at(1).at("b"), 2);
  EXPECT_THAT(error_of(R"({"a": {"x": 1, "y": 2, "x": 3}})"), HasSubstr(R"(the key "x" is there twice)"));
  EXPECT_EQ(error_of(R"({"a": {"x": 1}, "b": {"x": 2}, "x": 3})"), "no error");
}

}  // namespace
}  // namespace reprieve::core
