// SPDX-License-Identifier: BSD-3-Clause
// reprieve unset-aside

#include <gmock/gmock.h>

#include <fstream>

#include "tool_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ToolUnsetAside : public ToolTest {
 protected:
  void set_aside(int number, const std::string& suffix) const {
    fs::rename(file("run", number), file("run", number) + suffix);
  }
};

TEST_F(ToolUnsetAside, TakesBackWhatIsSoundAndLeavesTheRest) {
  const std::string directory = write("run", "plain", {1, 2, 3});
  damage_value(file("run", 2), kRareWeight);
  set_aside(2, ".corrupt");
  set_aside(3, ".corrupt.2");
  const Result plan = tool({"unset-aside", directory, "--dry-run"});
  EXPECT_EQ(plan.code, 1) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("sound       ckpt-3.h5.corrupt.2: ckpt-3.h5\n"));
  EXPECT_FALSE(fs::exists(file("run", 3)));

  const Result done = tool({"unset-aside", directory});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_THAT(done.out, HasSubstr("taken back  ckpt-3.h5.corrupt.2: ckpt-3.h5\n"));
  EXPECT_THAT(done.out, HasSubstr("stays       ckpt-2.h5.corrupt: model/weights"));
  EXPECT_TRUE(fs::exists(file("run", 3)));
  EXPECT_TRUE(fs::exists(file("run", 2) + ".corrupt"));
  EXPECT_EQ(tool({"verify", directory}).code, 0);
}

TEST_F(ToolUnsetAside, NeverReplacesACheckpoint) {
  const std::string directory = write("run", "plain", {1, 2});
  fs::copy(file("run", 1), file("run", 2) + ".corrupt");
  const auto result = tool_json({"unset-aside", directory}, 1);
  EXPECT_EQ(result["set_aside"][0]["sound"], false);
  EXPECT_THAT(result["set_aside"][0]["text"].get<std::string>(), HasSubstr("is there already"));
  EXPECT_TRUE(fs::exists(file("run", 2) + ".corrupt"));
  EXPECT_EQ(tool({"unset-aside", directory, "--prefix", "other"}).code, 0);
}

TEST_F(ToolUnsetAside, FilesOfASaveFunctionComeBackToo) {
  const std::string directory = write("run", "plain", {1});
  set_aside(1, ".corrupt");
  fs::create_directory(directory + "/ckpt-1.files.corrupt");
  std::ofstream(directory + "/ckpt-1.files.corrupt/notes.txt") << "x";
  EXPECT_EQ(tool({"unset-aside", directory}).code, 0);
  EXPECT_TRUE(fs::exists(file("run", 1)));
  EXPECT_TRUE(fs::exists(directory + "/ckpt-1.files/notes.txt"));
  EXPECT_THAT(tool({"unset-aside", directory}).out, HasSubstr("no checkpoint was set aside"));
}

}  // namespace
}  // namespace reprieve::test
