// SPDX-License-Identifier: BSD-3-Clause
// reprieve verify

#include <gmock/gmock.h>

#include <fstream>

#include "tool_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class ToolVerify : public ToolTest {};

TEST_F(ToolVerify, ValidFileAndDirectory) {
  const std::string directory = write("run", "plain", {1, 2});
  const Result one = tool({"verify", file("run", 1)});
  EXPECT_EQ(one.code, 0);
  EXPECT_EQ(one.out, file("run", 1) + ": valid\n");
  EXPECT_EQ(one.err, "");  // no progress where there is no terminal
  EXPECT_EQ(tool({"verify", directory}).out, file("run", 1) + ": valid\n" + file("run", 2) + ": valid\n");
  const json all = tool_json({"verify", directory});
  EXPECT_EQ(all["valid"], true);
  EXPECT_EQ(all["files"].size(), 2U);
}

TEST_F(ToolVerify, NamesCorruptVariableAndRegion) {
  const std::string directory = write("run", "plain", {1, 2});
  corrupt_value(file("run", 1), kRareWeight);
  const Result text = tool({"verify", file("run", 1)});
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out, HasSubstr(": CORRUPT in 1 place\n  model/weights, "));
  const json all = tool_json({"verify", directory}, 1);
  EXPECT_EQ(all["valid"], false);
  EXPECT_EQ(all["files"][0]["valid"], false);
  ASSERT_EQ(all["files"][0]["corruptions"].size(), 1U);
  EXPECT_EQ(all["files"][0]["corruptions"][0]["variable"], "model/weights");
  EXPECT_NE(all["files"][0]["corruptions"][0]["region"], "");
  EXPECT_EQ(all["files"][1]["valid"], true);
}

TEST_F(ToolVerify, EveryTruncationIsCorruption) {
  write("run", "plain", {1});
  const std::uintmax_t whole = fs::file_size(file("run", 1));
  const std::string cut = directory_ / "ckpt-7.h5";
  for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{1}, whole / 3, whole / 2, whole - 1}) {
    fs::copy_file(file("run", 1), cut, fs::copy_options::overwrite_existing);
    fs::resize_file(cut, size);
    const Result result = tool({"verify", cut});
    EXPECT_EQ(result.code, 1) << size << " of " << whole << " bytes: " << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("CORRUPT")) << size;
  }
}

TEST_F(ToolVerify, ForeignFileIsNotValid) {
  const std::string foreign = directory_ / "ckpt-1.h5";
  std::ofstream(foreign) << std::string(100'000, 'x');
  EXPECT_EQ(tool({"verify", foreign}).code, 1);
}

TEST_F(ToolVerify, DirectoryWithoutCheckpointsGivesTwo) {
  const Result result = tool({"verify", directory_.path()});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("there is no checkpoint in " + directory_.path().string()));
}

TEST_F(ToolVerify, WhatIsNoFileGivesTwo) { EXPECT_EQ(tool({"verify", "/dev/null"}).code, 2); }

}  // namespace
}  // namespace reprieve::test
