// SPDX-License-Identifier: BSD-3-Clause
// reprieve ls, reprieve show

#include <gmock/gmock.h>

#include <fstream>

#include "tool_test.hpp"

namespace reprieve::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class ToolLs : public ToolTest {};
class ToolShow : public ToolTest {};

TEST_F(ToolLs, ListsOldestFirst) {
  const std::string directory = write("run", "plain", {9, 10, 100});
  const json list = tool_json({"ls", directory});
  ASSERT_EQ(list["checkpoints"].size(), 3U);
  const std::vector<int> numbers{9, 10, 100};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const json& entry = list["checkpoints"][i];
    EXPECT_EQ(entry["number"], numbers[i]);
    EXPECT_EQ(entry["step"], 10 * numbers[i]);
    EXPECT_EQ(entry["world_size"], 2);
    EXPECT_EQ(entry["size_bytes"], std::filesystem::file_size(file("run", numbers[i])));
    EXPECT_EQ(entry["reason"]["kind"], "user");
    EXPECT_EQ(entry["valid"], true);
    EXPECT_GE(entry["age_s"], 0.0);
    EXPECT_LT(entry["age_s"], 300.0);
  }
  const Result text = tool({"ls", directory});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, MatchesRegex("FILE +NUMBER +STEP +SIZE +AGE +REASON +STATE\n"
                                     "ckpt-9.h5 +9 +90 +[0-9.]+ KiB +[0-9]+ (s|min) +user: by the test +valid\n"
                                     "ckpt-10.h5 +10 +100 .*\nckpt-100.h5 +100 +1000 .*\n"));
}

TEST_F(ToolLs, EmptyDirectory) {
  EXPECT_EQ(tool({"ls", directory_.path()}).out, "no checkpoints in " + directory_.path().string() + "\n");
  EXPECT_EQ(tool_json({"ls", directory_.path()})["checkpoints"], json::array());
}

TEST_F(ToolLs, TellsCorruptFromValid) {
  const std::string directory = write("run", "plain", {1, 2});
  corrupt_value(file("run", 2), kRareWeight);
  std::ofstream(directory_ / "run" / "ckpt-3.h5") << "not a checkpoint";
  std::ofstream(directory_ / "run" / "ckpt-4.h5.corrupt") << "quarantined";
  std::ofstream(directory_ / "run" / "notes-on-h5") << "somebody's";
  const json list = tool_json({"ls", directory});
  ASSERT_EQ(list["checkpoints"].size(), 3U);
  EXPECT_EQ(list["checkpoints"][0]["valid"], true);
  EXPECT_EQ(list["checkpoints"][0]["problem"], nullptr);
  EXPECT_EQ(list["checkpoints"][1]["valid"], false);
  EXPECT_THAT(list["checkpoints"][1]["problem"].get<std::string>(), HasSubstr("model/weights"));
  EXPECT_EQ(list["checkpoints"][2]["valid"], false);
  EXPECT_EQ(list["checkpoints"][2]["number"], 3);
  EXPECT_EQ(list["quarantine"], json::array({(directory_ / "run" / "ckpt-4.h5.corrupt").string()}));
  const Result text = tool({"ls", directory});
  EXPECT_THAT(text.out, HasSubstr("INVALID: model/weights"));
  EXPECT_THAT(text.out, HasSubstr("quarantined as corrupt: ckpt-4.h5.corrupt\n"));
  EXPECT_THAT(text.out, Not(HasSubstr("notes")));
}

TEST_F(ToolLs, QuickDoesNotReadTheData) {
  const std::string directory = write("run", "plain", {1});
  corrupt_value(file("run", 1), kRareWeight);
  EXPECT_EQ(tool_json({"ls", directory, "--quick"})["checkpoints"][0]["valid"], nullptr);
  EXPECT_THAT(tool({"ls", directory, "--quick"}).out, HasSubstr("not checked"));
}

TEST_F(ToolShow, ShowsEveryKindOfVariable) {
  write("run", "plain", {5});
  const json shown = tool_json({"show", file("run", 5)});
  EXPECT_EQ(shown["number"], 5);
  EXPECT_EQ(shown["run_calls"], 50);
  EXPECT_EQ(shown["world_size"], 2);
  EXPECT_EQ(shown["reason"]["message"], "by the test");
  EXPECT_EQ(shown["files_directory"], nullptr);
  EXPECT_THAT(tool({"--version"}).out,
              ::testing::StartsWith("reprieve " + shown["library_version"].get<std::string>() + "\n"));
  EXPECT_THAT(shown["mpi_version"].get<std::string>(), HasSubstr("MPI"));
  EXPECT_THAT(shown["hdf5_version"].get<std::string>(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  std::map<std::string, json> variables;
  for (const json& variable : shown["variables"]) {
    variables[variable["name"]] = variable;
  }
  ASSERT_EQ(variables.size(), 8U);
  EXPECT_EQ(variables["model/weights"],
            json::parse(R"({"name": "model/weights", "kind": "replicated", "type": "float64", "shape": [1000],
                            "bytes": 8000})"));
  EXPECT_EQ(variables["field"]["kind"], "distributed");
  EXPECT_EQ(variables["field"]["shape"], json::parse("[8, 100]"));
  EXPECT_EQ(variables["counts"]["kind"], "per_rank");
  EXPECT_EQ(variables["counts"]["rank_shapes"], json::parse("[[3], [4]]"));
  EXPECT_EQ(variables["position"]["shape"], json::array());
  EXPECT_EQ(variables["done"]["type"], "bool");
  EXPECT_EQ(variables["name"]["type"], "text");
  EXPECT_EQ(variables["spectrum"]["type"], "complex128");
  EXPECT_EQ(variables["engine"]["type"], "opaque");
}

TEST_F(ToolShow, IsReadable) {
  write("run", "plain", {5});
  const Result text = tool({"show", file("run", 5)});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("  step        50 (calls of run)\n"));
  EXPECT_THAT(text.out, HasSubstr("  reason      user: by the test\n"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("field +distributed +float64 +\\[8, 100\\] +6.2 KiB\n"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("counts +per_rank +int32 +\\[7\\] in all, differs by rank +28 B\n"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("position +replicated +int64 +scalar +8 B\n"));
}

TEST_F(ToolShow, ForeignFileGivesTwoAndItsName) {
  const std::string foreign = directory_ / "foreign.h5";
  std::ofstream(foreign) << "not a checkpoint";
  const Result result = tool({"show", foreign});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr(foreign));
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace reprieve::test
