// SPDX-License-Identifier: BSD-3-Clause
// `reprieve show FILE VAR` and `reprieve export`: the values in checkpoints of real runs.

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tool_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ToolValuesTest : public ToolTest {
 protected:
  ToolValuesTest() { write("run", "field", {5}); }

  [[nodiscard]] nlohmann::json values(const std::string& selector) const {
    return tool_json({"show", checkpoint, selector})["values"];
  }
  [[nodiscard]] std::string exported(const std::string& selector, const std::string& name) const {
    const Result result = tool({"export", checkpoint, selector, "-o", directory_ / name});
    EXPECT_EQ(result.code, 0) << result.err;
    return read_text(directory_ / name);
  }

  const std::string checkpoint = file("run", 5);
};

TEST_F(ToolValuesTest, SlicesCrossThePartsOfTheRanks) {
  EXPECT_EQ(values("model/weights[498:502]"), nlohmann::json::parse("[249.0, 249.5, 12345.678, 250.5]"));
  EXPECT_EQ(values("model/weights[-1]"), nlohmann::json::parse("[499.5]"));
  EXPECT_EQ(values("model/weights[::333]"), nlohmann::json::parse("[0.0, 166.5, 333.0, 499.5]"));
  EXPECT_EQ(values("field[::7, 16:19]"), nlohmann::json::parse("[1.0, 1.0, 1.0, 1.0, 1.000001, 1.0]"));
  EXPECT_EQ(tool_json({"show", checkpoint, "field[2:6, 5]"})["shape"], nlohmann::json::parse("[4]"));
  EXPECT_EQ(values("position"), nlohmann::json::parse("[42]"));
  EXPECT_EQ(values("name"), "digits");
  EXPECT_EQ(values("done"), nlohmann::json::parse("[false]"));
  EXPECT_EQ(values("spectrum[0]"), nlohmann::json::array({"(1-1j)"}));
}

TEST_F(ToolValuesTest, OfEachRankThereIsOne) {
  EXPECT_EQ(values("counts"), nlohmann::json::parse("[0, 0, 0]"));
  EXPECT_EQ(tool_json({"show", checkpoint, "counts[1:]", "--rank", "1"})["values"], nlohmann::json::parse("[1, 1, 1]"));
  EXPECT_THAT(tool({"show", checkpoint, "counts"}).out, StartsWith("counts  int32 [3], per_rank, rank 0 of 2\n"));
  expect_trouble({"show", checkpoint, "counts", "--rank", "2"}, "counts has the values of ranks 0 to 1");
  expect_trouble({"show", checkpoint, "field", "--rank", "0"}, "--rank is for per_rank variables");
}

TEST_F(ToolValuesTest, ManyValuesAreCutAndCounted) {
  const Result shown = tool({"show", checkpoint, "field"});
  EXPECT_THAT(shown.out, HasSubstr("\n[1, 96]  1 1 1 1\n... 600 more; --limit 0 prints all"));
  EXPECT_THAT(tool({"show", checkpoint, "field", "--limit", "0"}).out, ::testing::Not(HasSubstr("more")));
  EXPECT_EQ(tool_json({"show", checkpoint, "field", "--limit", "10"})["left_out"], 790);
}

TEST_F(ToolValuesTest, WrongNamesComeWithTheRightOne) {
  expect_trouble({"show", checkpoint, "fields"}, "did you mean \"field\"?");
  expect_trouble({"show", checkpoint, "field[9]"}, "the index \"9\" is not in dimension 0, which has the length 8");
  expect_trouble({"show", checkpoint, "field[0]", "--limit", "-1"}, "--limit");
  const std::string foreign = directory_ / "foreign.h5";
  std::ofstream(foreign) << "no checkpoint";
  expect_trouble({"show", foreign, "field"}, "is not a checkpoint");
  expect_trouble({"export", foreign, "field", "-o", directory_ / "x.csv"}, "is not a checkpoint");
  corrupt_value(checkpoint, kRareWeight);
  expect_trouble({"show", checkpoint, "model/weights"}, "checksum differs", 5);
}

TEST_F(ToolValuesTest, NumPyReadsWhatIsExported) {
  const std::string content = exported("field[6:, 16:19]", "x.npy");
  const std::string header = content.substr(10, 118);
  EXPECT_EQ(content.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_THAT(header, StartsWith("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }  "));
  EXPECT_EQ(header.back(), '\n');
  ASSERT_EQ(content.size(), 128 + 6 * sizeof(double));
  std::array<double, 6> numbers{};
  std::memcpy(numbers.data(), content.data() + 128, sizeof numbers);
  EXPECT_THAT(numbers, ::testing::ElementsAre(1, 1, 1, 1, 1.0 + 1e-6, 1));
  EXPECT_THAT(exported("position", "scalar.npy"), HasSubstr("'descr': '<i8', 'fortran_order': False, 'shape': ()"));
  EXPECT_THAT(exported("counts", "counts.npy"), HasSubstr("'shape': (3,)"));
}

TEST_F(ToolValuesTest, TextHasARowOfTheLastDimensionInEachLine) {
  EXPECT_EQ(exported("field[6:, 16:19]", "x.csv"), "1,1,1\n1,1.000001,1\n");
  EXPECT_EQ(exported("model/weights[499:501]", "y.csv"), "249.5,12345.678\n");
  EXPECT_EQ(exported("position", "z.csv"), "42\n");
}

TEST_F(ToolValuesTest, AFileThatIsThereStays) {
  const std::string output = directory_ / "x.csv";
  std::ofstream(output) << "mine";
  expect_trouble({"export", checkpoint, "position", "-o", output}, "is there already; --force replaces it");
  EXPECT_EQ(read_text(output), "mine");
  EXPECT_EQ(tool({"export", checkpoint, "position", "-o", output, "--force"}).code, 0);
  EXPECT_EQ(read_text(output), "42\n");
  expect_trouble({"export", checkpoint, "position", "-o", directory_ / "x.h5"}, "allowed: .npy, .csv. Copy");
  expect_trouble({"export", checkpoint, "position", "-o", directory_ / "none/x.csv"}, "No such file or directory");
  corrupt_value(checkpoint, kRareWeight);
  expect_trouble({"export", checkpoint, "model/weights", "-o", directory_ / "w.npy"}, "checksum differs", 5);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(directory_.path())) {
    left.push_back(entry.path().filename());
  }
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("run", "x.csv"));
}

}  // namespace
}  // namespace reprieve::test
