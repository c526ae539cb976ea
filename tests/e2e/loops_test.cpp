// SPDX-License-Identifier: BSD-3-Clause
// The time loops of apps/guide/loops.md, preempted by real signals twice, each time on another number of ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "e2e/limits.hpp"
#include "support/process.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;

class LoopsPage : public testing::TestWithParam<const char*> {
 protected:
  /// A job that is to be stopped makes steps of 2 ms: left alone, it would last 8 s and more.
  [[nodiscard]] std::unique_ptr<Mpirun> start(int ranks, const std::string& step_us) const {
    const std::vector<std::string> words{program("e2e_loops"), GetParam(), checkpoints_.string(), "4000", step_us};
    return std::make_unique<Mpirun>(MpiCommand{.ranks = ranks, .arguments = words});
  }

  [[nodiscard]] std::size_t times_ready() const {
    const std::string log = read_text(checkpoints_ / "events.jsonl");
    const std::string ready = "\"event\":\"ready\"";
    std::size_t count = 0;
    for (auto at = log.find(ready); at != std::string::npos; at = log.find(ready, at + 1)) {
      ++count;
    }
    return count;
  }

  void preempt(int ranks) {
    const std::size_t before = times_ready();
    const auto job = start(ranks, "2000");
    static_cast<void>(wait_until([&] { return times_ready() > before || !job->running(); }, kHang));
    const int told = std::uniform_int_distribution(0, ranks - 1)(random_);
    const std::chrono::milliseconds after(std::uniform_int_distribution(0, 400)(random_));
    std::this_thread::sleep_for(after);
    ASSERT_TRUE(job->send_to_rank(told, SIGTERM)) << job->out() << job->err();
    ASSERT_EQ(job->wait(kHang), 42) << "rank " << told << " of " << ranks << " told after " << after.count() << " ms\n"
                                    << job->out() << job->err();
  }

  /// The output of a run to the end.
  [[nodiscard]] std::string finish(int ranks) const {
    const auto job = start(ranks, "0");
    EXPECT_EQ(job->wait(kHang), 0) << job->err();
    return job->out();
  }

  TemporaryDirectory directory_;
  fs::path checkpoints_ = directory_ / "checkpoints";
  std::mt19937 random_{7};
};

/// The parts have managers of their own, without a handler; from the second start on they restore when all ranks are
/// ready.
class PartsUnderASupervisor : public LoopsPage {};
INSTANTIATE_TEST_SUITE_P(Of, PartsUnderASupervisor, testing::Values("parts"),
                         [](const auto& loop) { return std::string(loop.param); });

TEST_P(PartsUnderASupervisor, AreToldAndSave) {
  const std::string undisturbed = finish(2);
  for (const auto& entry : fs::directory_iterator(directory_.path())) {
    fs::remove_all(entry.path());
  }
  for (const int ranks : {3, 2}) {
    const std::size_t before = times_ready();
    Mpirun job({.ranks = ranks,
                .arguments = {program("e2e_loops"), GetParam(), checkpoints_.string(), "4000", "2000"},
                .launch_prefix = {program("reprieve"), "run", "--"}});
    ASSERT_TRUE(wait_until([&] { return times_ready() > before || !job.running(); }, kHang));
    job.send(SIGTERM);
    ASSERT_EQ(job.wait(kHang), 42) << job.out() << job.err();
  }
  EXPECT_EQ(finish(4), undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Of, LoopsPage,
                         testing::Values("phases", "own_steps", "every_hundredth", "refined", "own_order", "unwinding",
                                         "asking_first", "parts"),
                         [](const auto& loop) { return std::string(loop.param); });

TEST_P(LoopsPage, EndsAsIfItHadNotBeenDisturbed) {
  const std::string undisturbed = finish(2);
  EXPECT_THAT(undisturbed, testing::HasSubstr("digest"));
  for (const auto& entry : fs::directory_iterator(directory_.path())) {
    fs::remove_all(entry.path());
  }
  ASSERT_NO_FATAL_FAILURE(preempt(3));
  ASSERT_NO_FATAL_FAILURE(preempt(2));
  EXPECT_EQ(finish(4), undisturbed);
}

}  // namespace
}  // namespace reprieve::test
