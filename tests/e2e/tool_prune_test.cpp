// SPDX-License-Identifier: BSD-3-Clause
// reprieve prune

#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>

#include "tool_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ToolPrune : public ToolTest {
 protected:
  /// The names of the checkpoints and of what belongs to them, sorted.
  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_ / "run")) {
      if (const std::string name = entry.path().filename(); name.find('-') != std::string::npos) {
        names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(ToolPrune, KeepsTheNewest) {
  const std::string directory = write("run", "plain", {1, 2, 3, 10});
  const Result result = tool({"prune", directory, "--keep", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(left(), ElementsAre("ckpt-10.h5", "ckpt-3.h5"));
  EXPECT_THAT(result.out, HasSubstr("removed       ckpt-1.h5\nremoved       ckpt-2.h5\n"));
  EXPECT_EQ(tool({"verify", directory}).code, 0);
}

TEST_F(ToolPrune, DryRunRemovesNothing) {
  const std::string directory = write("run", "plain", {1, 2, 3});
  const std::uintmax_t size = fs::file_size(file("run", 1)) + fs::file_size(file("run", 2));
  const json plan = tool_json({"prune", directory, "--keep", "1", "--dry-run"});
  EXPECT_EQ(plan["removed"], json::array({file("run", 1), file("run", 2)}));
  EXPECT_EQ(plan["kept"], json::array({file("run", 3)}));
  EXPECT_EQ(plan["dry_run"], true);
  EXPECT_EQ(plan["freed_bytes"], size);
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-2.h5", "ckpt-3.h5"));
  EXPECT_THAT(tool({"prune", directory, "--keep", "1", "--dry-run"}).out, HasSubstr("would remove  ckpt-1.h5"));
}

TEST_F(ToolPrune, NeverRemovesTheNewestValid) {
  const std::string directory = write("run", "plain", {1, 2, 3, 4});
  corrupt_value(file("run", 3), kRareWeight);
  std::ofstream(file("run", 4), std::ios::trunc) << "cut";
  const json done = tool_json({"prune", directory, "--keep", "1"});
  EXPECT_EQ(done["kept"], json::array({file("run", 2)}));
  EXPECT_EQ(done["removed"], json::array({file("run", 1)}));
  EXPECT_EQ(done["corrupt"], json::array({file("run", 3), file("run", 4)}));
  EXPECT_THAT(left(), ElementsAre("ckpt-2.h5", "ckpt-3.h5", "ckpt-4.h5"));
}

TEST_F(ToolPrune, RemovesNothingIfNothingIsValid) {
  const std::string directory = write("run", "plain", {1, 2});
  corrupt_value(file("run", 1), kRareWeight);
  corrupt_value(file("run", 2), kRareWeight);
  const Result result = tool({"prune", directory, "--keep", "1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("is valid, so none is removed"));
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-2.h5"));
}

TEST_F(ToolPrune, RefusesWhileARunUsesTheDirectory) {
  const std::string directory = directory_ / "run";
  Mpirun run({.ranks = 2, .arguments = {program("e2e_writer"), directory, "hold", "1", "2", "3"}});
  ASSERT_TRUE(wait_until([&] { return run.out().find("holding") != std::string::npos; }, 120s)) << run.err();
  const Result refused = tool({"prune", directory, "--keep", "1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("is in use by the run of process"));
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-2.h5", "ckpt-3.h5"));
  EXPECT_EQ(tool({"prune", directory, "--keep", "1", "--dry-run"}).code, 0);
  run.send_to_ranks(SIGKILL);
  ASSERT_TRUE(run.wait(60s) && run.wait_for_descendants(60s));
  EXPECT_EQ(tool({"prune", directory, "--keep", "1"}).code, 0);
  EXPECT_THAT(left(), ElementsAre("ckpt-3.h5"));
}

TEST_F(ToolPrune, RemovesTheFilesOfACheckpointWithIt) {
  const std::string directory = write("run", "plain", {1, 2});
  fs::create_directory(directory_ / "run" / "ckpt-1.files");
  std::ofstream(directory_ / "run" / "ckpt-1.files" / "notes") << "of the save function";
  EXPECT_EQ(tool({"prune", directory, "--keep", "1"}).code, 0);
  EXPECT_THAT(left(), ElementsAre("ckpt-2.h5"));
}

TEST_F(ToolPrune, AsksWhichKindIfThereAreSeveral) {
  const std::string directory = write("run", "plain", {1, 2, 3});
  fs::rename(file("run", 3), directory_ / "run" / "other-3.h5");
  const Result unclear = tool({"prune", directory, "--keep", "1"});
  EXPECT_EQ(unclear.code, 2);
  EXPECT_THAT(unclear.err, HasSubstr("choose one with --prefix: ckpt, other"));
  EXPECT_EQ(tool({"prune", directory, "--keep", "1", "--prefix", "ckpt"}).code, 0);
  EXPECT_THAT(left(), ElementsAre("ckpt-2.h5", "other-3.h5"));
}

TEST_F(ToolPrune, KeepMustBePositive) {
  const std::string directory = write("run", "plain", {1}, 1);
  for (const std::string keep : {"0", "-1", "all"}) {
    EXPECT_EQ(tool({"prune", directory, "--keep=" + keep}).code, 2) << keep;
  }
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5"));
}

}  // namespace
}  // namespace reprieve::test
