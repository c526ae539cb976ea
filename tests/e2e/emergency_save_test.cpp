// SPDX-License-Identifier: BSD-3-Clause
// A notice after which no step boundary comes in time: each rank flushes its node-local copy into the checkpoint
// directory alone. Then everything is killed, and what lay in memory is lost.

#include <gmock/gmock.h>

#include <set>

#include "local_run.hpp"

namespace reprieve::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class EmergencySaves : public LocalRun {
 protected:
  EmergencySaves() { emergency_after_s_ = 0.1; }

  /// Starts a run whose steps take long, and waits until there is a node-local copy. Returns its step.
  int start_and_copy(int ranks) {
    job_ = start(ranks, {.step_delay_ms = 8000});
    EXPECT_TRUE(wait_until([&] { return newest_copy(local_.path()) > 0 || !job_->running(); }, kHang));
    return newest_copy(local_.path());
  }

  /// The ranks whose parts were flushed.
  [[nodiscard]] std::set<int> flushed() const {
    std::set<int> ranks;
    const fs::path place = checkpoints_ + "/.reprieve.parts";
    if (fs::exists(place)) {
      for (const auto& entry : fs::directory_iterator(place)) {
        const std::string name = entry.path().filename();
        if (name.ends_with(".part")) {
          ranks.insert(std::stoi(name.substr(name.find('-') + 1)));
        }
      }
    }
    return ranks;
  }

  [[nodiscard]] bool is_in_time(const std::set<int>& wanted) const {
    EXPECT_TRUE(wait_until([&] { return flushed() == wanted || !job_->running(); }, kHang));
    return flushed() == wanted && job_->running();
  }

  /// The hosts go away: the ranks, and what is in memory.
  void lose_hosts() {
    job_->send_to_ranks(SIGKILL);
    EXPECT_TRUE(job_->wait(kHang)) << job_->out() << job_->err();
    for (const auto& entry : fs::directory_iterator(local_.path())) {
      fs::remove_all(entry.path());
    }
  }

  /// Runs to the end, on other ranks, without node-local copies.
  void expect_to_go_on_at(int step) const {
    Mpirun last({.ranks = 3, .arguments = heat(checkpoints_, {})});
    expect_same_end(last);
    EXPECT_EQ(last_restore().at("number"), step);
    EXPECT_FALSE(fs::exists(checkpoints_ + "/.reprieve.parts"));
  }

  std::unique_ptr<Mpirun> job_;
};

TEST_F(EmergencySaves, AStepMayBeLongerThanTheGracePeriod) {
  const int step = start_and_copy(2);
  job_->send_to_ranks(SIGTERM);
  ASSERT_TRUE(is_in_time({0, 1})) << job_->err();
  lose_hosts();
  EXPECT_THAT(job_->err(), HasSubstr("without the other ranks"));
  expect_to_go_on_at(step);
}

TEST_F(EmergencySaves, ThePartOfARankThatIsStoppedIsFlushedByAnother) {
  const int step = start_and_copy(2);
  ASSERT_TRUE(job_->send_to_rank(0, SIGSTOP));
  ASSERT_TRUE(job_->send_to_rank(1, SIGTERM));
  ASSERT_TRUE(is_in_time({0, 1})) << job_->err();
  lose_hosts();
  expect_to_go_on_at(step);
}

TEST_F(EmergencySaves, ASaveThatIsDoneInTimeCounts) {
  const int step = start_and_copy(2);
  job_->send_to_ranks(SIGTERM);
  ASSERT_TRUE(is_in_time({0, 1})) << job_->err();
  EXPECT_EQ(job_->wait(kHang), 42) << job_->err();
  EXPECT_EQ(flushed(), std::set<int>());
  EXPECT_FALSE(fs::exists(checkpoints_ + "/.reprieve.parts"));
  expect_same_end(*start(2));
  EXPECT_GT(last_restore().at("number").get<int>(), step);
}

}  // namespace
}  // namespace reprieve::test
