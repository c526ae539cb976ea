// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/strict_json.hpp"
#include "reprieve/error.hpp"

namespace reprieve::core {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    parse_object(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(StrictJson, ReadsAnObject) {
  EXPECT_EQ(parse_object(R"({"a": {"b": [1, {"b": 2}]}, "b": 3})").at("a").at("b").at(1).at("b"), 2);
}

TEST(StrictJson, NamesThePlaceOfAMistake) {
  EXPECT_THAT(error_of("{\n  \"a\": 1,\n}"), HasSubstr("line 3, column 1"));
  EXPECT_THAT(error_of(""), HasSubstr("not valid JSON"));
}

TEST(StrictJson, WantsAnObject) { EXPECT_THAT(error_of("[1]"), HasSubstr("found [1]; allowed: an object")); }

TEST(StrictJson, FindsKeysThatComeTwice) {
  EXPECT_THAT(error_of(R"({"a": {"x": 1, "y": 2, "x": 3}})"), HasSubstr(R"(the key "x" is there twice)"));
  EXPECT_EQ(error_of(R"({"a": {"x": 1}, "b": {"x": 2}, "x": 3})"), "no error");
}

}  // namespace
}  // namespace reprieve::core
