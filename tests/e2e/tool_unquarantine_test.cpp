// SPDX-License-Identifier: BSD-3-Clause
// reprieve unquarantine

#include <gmock/gmock.h>

#include <fstream>

#include "tool_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ToolUnquarantine : public ToolTest {
 protected:
  void quarantine(int number, const std::string& suffix) const {
    fs::rename(file("run", number), file("run", number) + suffix);
  }
};

TEST_F(ToolUnquarantine, TakesBackWhatIsValidAndLeavesTheRest) {
  const std::string directory = write("run", "plain", {1, 2, 3});
  corrupt_value(file("run", 2), kRareWeight);
  quarantine(2, ".corrupt");
  quarantine(3, ".corrupt.2");
  const Result plan = tool({"unquarantine", directory, "--dry-run"});
  EXPECT_EQ(plan.code, 1) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("valid       ckpt-3.h5.corrupt.2: ckpt-3.h5\n"));
  EXPECT_FALSE(fs::exists(file("run", 3)));

  const Result done = tool({"unquarantine", directory});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_THAT(done.out, HasSubstr("taken back  ckpt-3.h5.corrupt.2: ckpt-3.h5\n"));
  EXPECT_THAT(done.out, HasSubstr("stays       ckpt-2.h5.corrupt: model/weights"));
  EXPECT_TRUE(fs::exists(file("run", 3)));
  EXPECT_TRUE(fs::exists(file("run", 2) + ".corrupt"));
  EXPECT_EQ(tool({"verify", directory}).code, 0);
}

TEST_F(ToolUnquarantine, NeverReplacesACheckpoint) {
  const std::string directory = write("run", "plain", {1, 2});
  fs::copy(file("run", 1), file("run", 2) + ".corrupt");
  const auto result = tool_json({"unquarantine", directory}, 1);
  EXPECT_EQ(result["quarantine"][0]["valid"], false);
  EXPECT_THAT(result["quarantine"][0]["text"].get<std::string>(), HasSubstr("is there already"));
  EXPECT_TRUE(fs::exists(file("run", 2) + ".corrupt"));
  EXPECT_EQ(tool({"unquarantine", directory, "--prefix", "other"}).code, 0);
}

TEST_F(ToolUnquarantine, FilesOfASaveFunctionComeBackToo) {
  const std::string directory = write("run", "plain", {1});
  quarantine(1, ".corrupt");
  fs::create_directory(directory + "/ckpt-1.files.corrupt");
  std::ofstream(directory + "/ckpt-1.files.corrupt/notes.txt") << "x";
  EXPECT_EQ(tool({"unquarantine", directory}).code, 0);
  EXPECT_TRUE(fs::exists(file("run", 1)));
  EXPECT_TRUE(fs::exists(directory + "/ckpt-1.files/notes.txt"));
  EXPECT_THAT(tool({"unquarantine", directory}).out, HasSubstr("no checkpoint was quarantined"));
}

}  // namespace
}  // namespace reprieve::test
