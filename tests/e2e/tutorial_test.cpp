// SPDX-License-Identifier: BSD-3-Clause
// The programs of apps/guide/tutorial: each, preempted by a real signal and resumed on another number of ranks, ends as
// the program does that knows nothing of Reprieve. tests/consumer has the tutorial's text, command by command.

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "e2e/limits.hpp"
#include "support/process.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

/// Lasts long enough for a signal to arrive, however fast the machine.
const std::string kTutorialSteps = "10000";

class Tutorial : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] MpiCommand command(const std::string& name, int ranks, const std::string& steps) const {
    return {.ranks = ranks, .arguments = {program(name), steps}, .directory = directory_.path()};
  }

  /// The line "sum ..." of a run that is left alone.
  [[nodiscard]] std::string sum(const MpiCommand& job) const {
    Mpirun mpirun(job);
    EXPECT_EQ(mpirun.wait(kHang), 0) << mpirun.err();
    EXPECT_TRUE(mpirun.out().starts_with("sum ")) << mpirun.out();
    return mpirun.out();
  }

  /// All ranks watch their signals, and the loop begins.
  [[nodiscard]] bool is_ready() const {
    return read_text(directory_ / "checkpoints" / "events.jsonl").find("\"ready\"") != std::string::npos;
  }

  [[nodiscard]] nlohmann::json last_exit() const {
    std::ifstream file(directory_ / "checkpoints" / "events.jsonl");
    nlohmann::json found;
    for (std::string line; std::getline(file, line);) {
      auto event = nlohmann::json::parse(line);
      if (event.at("event") == "exit") {
        found = std::move(event);
      }
    }
    return found;
  }

  TemporaryDirectory directory_;
};

TEST_P(Tutorial, IsPreemptedAndResumedOnAnotherNumberOfRanks) {
  const std::string name = "tutorial_" + GetParam();
  if (!std::filesystem::exists(program(name))) {
    GTEST_SKIP() << name << " was not built";
  }
  const std::string expected = sum(command(name + "_before", 1, kTutorialSteps));
  {
    Mpirun job(command(name, 2, kTutorialSteps));
    ASSERT_TRUE(wait_until([&] { return is_ready() || !job.running(); }, kHang));
    std::this_thread::sleep_for(100ms);  // so that mostly there is a step or more to be saved
    ASSERT_TRUE(job.send_to_rank(1, SIGTERM)) << job.err();
    ASSERT_TRUE(wait_until([&] { return job.ranks().empty(); }, kHang)) << job.err();
    if (const auto code = job.wait(kHungLauncher)) {  // a launcher that hangs after its ranks have left is killed
      EXPECT_EQ(code, 42) << job.err();
    }
  }
  const nlohmann::json exit = last_exit();
  ASSERT_TRUE(exit.is_object());
  EXPECT_EQ(exit.at("exit_code"), 42);
  EXPECT_LT(exit.at("run_calls"), std::stoi(kTutorialSteps));
  EXPECT_EQ(sum(command(name, 1, kTutorialSteps)),
            expected);  // more ranks than cores would take minutes; tests/consumer has 3
}

INSTANTIATE_TEST_SUITE_P(Languages, Tutorial, testing::Values("cpp", "c", "f90"),
                         [](const auto& language) { return language.param; });

}  // namespace
}  // namespace reprieve::test
