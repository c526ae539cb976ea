// SPDX-License-Identifier: BSD-3-Clause
// reprieve diff

#include <gmock/gmock.h>

#include <fstream>

#include "tool_test.hpp"

namespace reprieve::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ToolDiff : public ToolTest {
 protected:
  /// Compares the plain state with a variant; both the JSON and the text are kept.
  void compare(const std::string& variant, int code) {
    write("a", "plain", {1});
    write("b", variant, {2});
    report_ = tool_json({"diff", file("a", 1), file("b", 2)}, code);
    text_ = tool({"diff", file("a", 1), file("b", 2)}).out;
  }

  /// The only difference found.
  json only_difference() {
    EXPECT_EQ(report_["differences"].size(), 1U) << report_;
    return report_["differences"][0];
  }

  json report_;
  std::string text_;
};

TEST_F(ToolDiff, EqualStatesOfDifferentSaves) {
  compare("plain", 0);
  EXPECT_EQ(report_["equal"], true);
  EXPECT_EQ(report_["variables"], 8);
  EXPECT_EQ(report_["differences"], json::array());
  EXPECT_THAT(text_, HasSubstr("equal: 8 variables, "));
}

TEST_F(ToolDiff, SaysWhereAndHowMuchNumbersDiffer) {
  compare("weights", 1);
  EXPECT_EQ(report_["equal"], false);
  const json difference = only_difference();
  EXPECT_EQ(difference["variable"], "model/weights");
  EXPECT_EQ(difference["problem"], "values");
  EXPECT_EQ(difference["elements"], 1000);
  EXPECT_EQ(difference["different_elements"], 2);
  EXPECT_EQ(difference["first_index"], json::array({7}));
  EXPECT_EQ(difference["first_rank"], nullptr);
  EXPECT_EQ(difference["max_abs_difference"], 1.5);
  EXPECT_EQ(difference["max_rel_difference"], 1.5 / 4.5);
  EXPECT_EQ(difference["not_finite"], 0);
  EXPECT_THAT(text_, HasSubstr("different: 1 of 8 variables\n"));
  EXPECT_THAT(text_, HasSubstr("2 of 1000 elements, first at [7]; max abs 1.5, max rel 0.333\n"));
}

TEST_F(ToolDiff, IndexOfDistributedArrayIsGlobal) {
  compare("field", 1);
  EXPECT_EQ(only_difference()["first_index"], json::array({7, 17}));
  EXPECT_NEAR(only_difference()["max_abs_difference"], 1e-6, 1e-9);
}

TEST_F(ToolDiff, IndexOfPerRankVariableNamesTheRank) {
  compare("counts", 1);
  EXPECT_EQ(only_difference()["first_rank"], 1);
  EXPECT_EQ(only_difference()["first_index"], json::array({2}));
  EXPECT_EQ(only_difference()["max_abs_difference"], 10.0);
  EXPECT_THAT(text_, HasSubstr("1 of 7 elements, first at rank 1 [2]"));
}

TEST_F(ToolDiff, NaNIsCountedApart) {
  compare("nan", 1);
  EXPECT_EQ(only_difference()["different_elements"], 1);
  EXPECT_EQ(only_difference()["not_finite"], 1);
  EXPECT_EQ(only_difference()["max_abs_difference"], nullptr);
  EXPECT_THAT(text_, HasSubstr("1 by NaN or infinity"));
}

TEST_F(ToolDiff, NaNEqualsItself) {
  write("a", "nan", {1});
  write("b", "nan", {1});
  EXPECT_EQ(tool({"diff", file("a", 1), file("b", 1)}).code, 0);
}

TEST_F(ToolDiff, OtherTypesThanRealNumbers) {
  compare("several", 1);
  std::map<std::string, json> found;
  for (const json& difference : report_["differences"]) {
    found[difference["variable"]] = difference;
  }
  ASSERT_EQ(found.size(), 4U) << report_;
  EXPECT_EQ(found["done"]["different_elements"], 1);
  EXPECT_EQ(found["done"]["first_index"], json::array());
  EXPECT_EQ(found["done"]["max_abs_difference"], nullptr);
  EXPECT_EQ(found["name"]["first_index"], json::array({5}));
  EXPECT_EQ(found["spectrum"]["max_abs_difference"], 5.0);
  EXPECT_EQ(found["engine"]["problem"], "values");
  EXPECT_EQ(found["engine"]["first_rank"], 0);
}

TEST_F(ToolDiff, Shape) {
  compare("shape", 1);
  EXPECT_EQ(only_difference()["problem"], "shape");
  EXPECT_THAT(text_, HasSubstr("shape: [1000] in A, [999] in B"));
}

TEST_F(ToolDiff, ShapeOnOneRank) {
  compare("rank_shape", 1);
  EXPECT_THAT(text_, HasSubstr("shape: [4] on rank 1 in A, [5] on rank 1 in B"));
}

TEST_F(ToolDiff, Type) {
  compare("type", 1);
  EXPECT_EQ(only_difference()["problem"], "type");
  EXPECT_EQ(only_difference()["a"], "float64");
  EXPECT_EQ(only_difference()["b"], "float32");
}

TEST_F(ToolDiff, Kind) {
  compare("kind", 1);
  EXPECT_THAT(text_, HasSubstr("kind: replicated in A, per_rank in B"));
}

TEST_F(ToolDiff, OnlyInOne) {
  compare("missing", 1);
  EXPECT_EQ(only_difference()["problem"], "only_in_a");
  const json other_way = tool_json({"diff", file("b", 2), file("a", 1)}, 1);
  EXPECT_EQ(other_way["differences"][0]["problem"], "only_in_b");
}

TEST_F(ToolDiff, NumberOfRanksCountsForPerRankVariablesOnly) {
  write("a", "plain", {1}, 2);
  write("b", "plain", {1}, 3);
  const json report = tool_json({"diff", file("a", 1), file("b", 1)}, 1);
  std::vector<std::string> names;
  for (const json& difference : report["differences"]) {
    EXPECT_EQ(difference["problem"], "shape");
    EXPECT_EQ(difference["a"], "2 ranks");
    EXPECT_EQ(difference["b"], "3 ranks");
    names.push_back(difference["variable"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"counts", "engine"}));
}

TEST_F(ToolDiff, CorruptOrForeignFileIsTrouble) {
  write("a", "plain", {1, 2});
  corrupt_value(file("a", 2), kRareWeight);
  const Result corrupt = tool({"diff", file("a", 1), file("a", 2)});
  EXPECT_EQ(corrupt.code, 2);
  EXPECT_THAT(corrupt.err, HasSubstr("is corrupt, so it cannot be compared: model/weights"));
  const std::string foreign = directory_ / "foreign.h5";
  std::ofstream(foreign) << "not a checkpoint";
  EXPECT_EQ(tool({"diff", foreign, file("a", 1)}).code, 2);
}

}  // namespace
}  // namespace reprieve::test
