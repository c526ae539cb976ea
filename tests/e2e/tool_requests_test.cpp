// SPDX-License-Identifier: BSD-3-Clause
// What the tool asks of a run that works, and what it does to its directory: `stop`, `save`, `log`, `pin`, `rewind`.

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "e2e/limits.hpp"
#include "e2e/local_run.hpp"
#include "tool_test.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class ToolRequests : public ToolTest {
 protected:
  /// A run that makes steps until it is told to leave.
  [[nodiscard]] std::unique_ptr<Mpirun> start() const {
    auto run = std::make_unique<Mpirun>(
        MpiCommand{.ranks = 2, .arguments = {program("e2e_field"), directory, "1000000", "10", "save_every=1000000"}});
    EXPECT_TRUE(wait_until([&] { return run->out().find("step") != std::string::npos; }, kHang)) << run->err();
    return run;
  }

  const std::string directory = directory_ / "run";
};

TEST_F(ToolRequests, ARunSavesWhenItIsAskedAndContinues) {
  const auto run = start();
  const auto saved = tool_json({"save", directory, "--wait"});
  EXPECT_EQ(saved["done"], true);
  EXPECT_TRUE(fs::exists(saved["checkpoint"].get<std::string>()));
  EXPECT_FALSE(fs::exists(directory + "/SAVE"));
  EXPECT_TRUE(run->running());

  const auto stopped = tool_json({"stop", directory, "--wait"});
  EXPECT_EQ(stopped["done"], true);
  EXPECT_TRUE(fs::exists(stopped["checkpoint"].get<std::string>()));
  EXPECT_EQ(run->wait(kHang), 42) << run->err();
  const Result log = tool({"log", directory});
  EXPECT_THAT(log.out, AllOf(HasSubstr("  start 1 on "), HasSubstr("  saving checkpoint "),
                             HasSubstr("  notice on rank 0 "), HasSubstr("the ranks leave with code 42")));
  EXPECT_THAT(tool({"log", directory, "--last", "1"}).out, HasSubstr("the ranks leave with code 42"));
  EXPECT_THAT(tool({"log", directory, "--last", "1"}).out, Not(HasSubstr("start 1 on")));
}

TEST_F(ToolRequests, ALogIsFollowedUntilItIsInterrupted) {
  const auto run = start();
  Process log({{program("reprieve"), "log", directory, "--follow", "--last", "1"}});
  ASSERT_TRUE(wait_until([&] { return !log.out().empty(); }, kHang)) << log.err();
  EXPECT_THAT(log.out(), Not(HasSubstr("saved ckpt-")));
  EXPECT_EQ(tool({"save", directory, "--wait"}).code, 0);
  EXPECT_TRUE(wait_until([&] { return log.out().find("saved ckpt-") != std::string::npos; }, kHang)) << log.out();
  EXPECT_TRUE(log.running());
  log.send(SIGINT);
  EXPECT_TRUE(log.wait(kHang));
  run->send_to_ranks(SIGTERM);
  EXPECT_EQ(run->wait(kHang), 42);
}

TEST_F(ToolRequests, WithoutARunThereIsNothingToAsk) {
  fs::create_directory(directory);
  expect_trouble({"stop", directory}, "no run uses " + directory + " now, so there is none to stop", 3);
  expect_trouble({"save", directory}, "so there is none to save", 3);
  expect_trouble({"log", directory}, "has no event log", 3);
  EXPECT_FALSE(fs::exists(directory + "/PREEMPT"));
}

TEST_F(ToolRequests, ARequestForAnEarlierLaunchStopsNoLaterOne) {
  {
    const auto run = start();
    run->send_to_ranks(SIGSTOP);
    EXPECT_EQ(tool({"stop", directory}).code, 0);
    run->send_to_ranks(SIGKILL);
    ASSERT_TRUE(run->wait(kHang));
  }
  ASSERT_TRUE(fs::exists(directory + "/PREEMPT"));
  const auto run = start();
  EXPECT_TRUE(wait_until([&] { return !fs::exists(directory + "/PREEMPT"); }, kHang));
  EXPECT_EQ(tool({"save", directory, "--wait"}).code, 0) << "it works on";
  EXPECT_TRUE(run->running());
  run->send_to_ranks(SIGTERM);
  EXPECT_EQ(run->wait(kHang), 42);
}

class ToolDirectory : public ToolTest {
 protected:
  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_ / "run")) {
      if (entry.path().filename().string().starts_with("ckpt-")) {
        names.push_back(entry.path().filename());
      }
    }
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(ToolDirectory, PinnedCheckpointsAreNotPruned) {
  const std::string directory = write("run", "plain", {1, 2, 3});
  EXPECT_EQ(tool({"pin", file("run", 1)}).out, "pinned  " + file("run", 1) + "\n");
  EXPECT_EQ(tool_json({"ls", directory})["checkpoints"][0]["pinned"], true);
  EXPECT_THAT(tool({"ls", directory}).out, HasSubstr("committed, pinned\n"));
  EXPECT_THAT(tool({"prune", directory, "--keep", "1"}).out, HasSubstr("pinned        ckpt-1.h5\n"));
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-1.h5.pinned", "ckpt-3.h5"));
  EXPECT_EQ(tool({"unpin", file("run", 1)}).code, 0);
  expect_trouble({"unpin", file("run", 1)}, "is not pinned");
  expect_trouble({"pin", file("run", 7)}, "does not exist", 3);
  expect_trouble({"pin", directory + "/events.jsonl"}, "is no checkpoint");
  EXPECT_EQ(tool({"prune", directory, "--keep", "1"}).code, 0);
  EXPECT_THAT(left(), ElementsAre("ckpt-3.h5"));
}

TEST_F(ToolDirectory, PrunedByTime) {
  const std::string directory = write("run", "plain", {1, 2, 3, 4});
  EXPECT_EQ(tool_json({"prune", directory, "--keep-within", "7d"})["removed"], nlohmann::json::array());
  expect_trouble({"prune", directory}, "say what to keep");
  const auto pruned = tool_json({"prune", directory, "--keep-every", "1d"});
  EXPECT_EQ(pruned["removed"].size(), 2U) << "the first of the day and the newest stay";
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-4.h5"));
}

TEST_F(ToolDirectory, RewindAndBack) {
  const std::string directory = write("run", "plain", {1, 2, 3, 4});
  fs::create_directory(directory + "/ckpt-3.files");
  tool({"pin", file("run", 3)});
  expect_trouble({"rewind", directory, "--to", "25"},
                 "no checkpoint of step 25; there are those of steps 10, 20, 30, 40", 3);
  EXPECT_EQ(tool({"rewind", directory, "--to", "20", "--dry-run"}).code, 0);
  EXPECT_TRUE(fs::exists(file("run", 4)));
  const auto rewound = tool_json({"rewind", directory, "--to", "20"});
  EXPECT_EQ(rewound["step"], 20);
  EXPECT_EQ(rewound["rewound"], nlohmann::json::parse(R"(["ckpt-3.h5.rewound", "ckpt-4.h5.rewound"])"));
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-2.h5", "ckpt-3.files.rewound", "ckpt-3.h5.pinned.rewound",
                                  "ckpt-3.h5.rewound", "ckpt-4.h5.rewound"));
  EXPECT_EQ(tool_json({"ls", directory})["rewound"].size(), 2U);
  EXPECT_THAT(tool({"ls", directory}).out, HasSubstr("takes it back: ckpt-3.h5.rewound\n"));
  EXPECT_EQ(tool_json({"rewind", directory, "--to", "10"})["rewound"],
            nlohmann::json::parse(R"(["ckpt-2.h5.rewound.2"])"));

  EXPECT_EQ(tool_json({"rewind", directory, "--undo"})["file"], "ckpt-2.h5");
  EXPECT_EQ(tool_json({"rewind", directory, "--undo"})["file"], "ckpt-4.h5");
  EXPECT_THAT(left(),
              ElementsAre("ckpt-1.h5", "ckpt-2.h5", "ckpt-3.files", "ckpt-3.h5", "ckpt-3.h5.pinned", "ckpt-4.h5"));
  EXPECT_THAT(tool({"rewind", directory, "--undo"}).out, HasSubstr("no checkpoint was rewound\n"));
}

TEST_F(ToolDirectory, RewindChangesNothingIfItsStepIsCorrupt) {
  const std::string directory = write("run", "plain", {1, 2});
  corrupt_value(file("run", 1), kRareWeight);
  expect_trouble({"rewind", directory, "--to", "10"}, "is corrupt, so nothing is changed", 5);
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-2.h5"));
}

TEST_F(ToolDirectory, AfterARewindNewCheckpointsTakeTheNames) {
  const std::string directory = write("run", "plain", {1, 2});
  EXPECT_EQ(tool({"rewind", directory, "--to", "10"}).code, 0);
  write("run", "plain", {2});
  expect_trouble({"rewind", directory, "--undo"}, "was saved after the rewind");
  EXPECT_THAT(left(), ElementsAre("ckpt-1.h5", "ckpt-2.h5", "ckpt-2.h5.rewound"));
}

using ToolRewind = LocalRun;

/// Also where the checkpoint is the newest one, and only copies are newer.
TEST_F(ToolRewind, NewerNodeLocalCopiesAreNotResumedFrom) {
  int last = 0;
  {
    const auto job = start(2, {.save_every_steps = 100, .step_delay_ms = 5});
    last = kill_after(*job, 110);
  }
  ASSERT_GT(last, 110);
  const auto checkpoints = tool_json({"ls", checkpoints_})["checkpoints"];
  const auto step = checkpoints.back()["step"].get<int>();
  ASSERT_LT(step, last);
  EXPECT_EQ(tool({"rewind", checkpoints_, "--to", std::to_string(step)}).code, 0);
  const auto job = start(2);
  expect_same_end(*job);
  EXPECT_EQ(last_restore()["run_calls"], step);
  EXPECT_THAT(last_restore()["file"].get<std::string>(), EndsWith(".h5"));
}

}  // namespace
}  // namespace reprieve::test
