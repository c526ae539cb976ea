// SPDX-License-Identifier: BSD-3-Clause
// TensorFlow's own tests of its failure handling, with the ported worker: 4 workers, 8 epochs of 15 steps, a random
// worker and a random moment, once with each way to agree, or as often as REPRIEVE_SCENARIO_REPETITIONS says.

#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/process.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::seconds kHang{120};
constexpr int kWorkers = 4;
constexpr const char* kWholeRun = "v 120 calls 120";
/// Of a run that is to be preempted: left alone, it would last more than 2 s.
constexpr const char* kSlow = "step_us=20000";

int repetitions() {
  const char* text = std::getenv("REPRIEVE_SCENARIO_REPETITIONS");
  return text == nullptr ? 1 : std::stoi(text);
}

class Scenario : public testing::Test {
 protected:
  using Words = std::vector<std::string>;

  [[nodiscard]] std::unique_ptr<Mpirun> start(const std::string& loop, const Words& options) const {
    const Words words{program("scenarios_tensorflow"), loop, checkpoints_.string()};
    return std::make_unique<Mpirun>(MpiCommand{.ranks = kWorkers, .arguments = joined(words, options)});
  }

  /// Waits until the first step, and then for a random time.
  void wait_for_a_moment(Mpirun& job) {
    ASSERT_TRUE(wait_until([&] { return job.out().find("ready") != std::string::npos || !job.running(); }, kHang));
    std::this_thread::sleep_for(std::chrono::microseconds(random(0, 60'000)));
  }

  /// One worker, at a random moment.
  void preempt(const std::string& loop, const Words& options) {
    const auto job = start(loop, options);
    ASSERT_NO_FATAL_FAILURE(wait_for_a_moment(*job));
    ASSERT_TRUE(job->send_to_rank(random(0, kWorkers - 1), SIGTERM)) << job->out() << job->err();
    ASSERT_EQ(job->wait(kHang), 42) << job->out() << job->err();
  }

  int random(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  /// Each repetition has its own seed, which is shown, and an empty directory.
  template <class Test>
  void repeat(const Test& test) {
    for (int i = 0; i < repetitions(); ++i) {
      const unsigned seed = std::random_device{}();
      random_.seed(seed);
      SCOPED_TRACE("seed " + std::to_string(seed));
      fs::remove_all(checkpoints_);
      ASSERT_NO_FATAL_FAILURE(test());
    }
  }

  [[nodiscard]] std::size_t number_of_checkpoints() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(checkpoints_)) {
      count += entry.path().extension() == ".h5" ? 1U : 0U;
    }
    return count;
  }

  /// The next start continues and comes to the end that an undisturbed run has.
  void expect_the_rest(const std::string& loop, const Words& options = {}) const {
    const auto job = start(loop, options);
    EXPECT_EQ(job->wait(kHang), 0) << job->out() << job->err();
    EXPECT_THAT(job->out(), HasSubstr(kWholeRun)) << job->err();
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("workertemp")));
    }
  }

  TemporaryDirectory directory_;
  fs::path checkpoints_ = directory_ / "checkpoints";
  std::mt19937 random_;
};

class PortedLoop : public Scenario, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(By, PortedLoop, testing::Values("run", "boundary", "scope", "manager"),
                         [](const auto& loop) { return std::string(loop.param); });

TEST_P(PortedLoop, OneWorkerIsPreempted) {
  repeat([&] {
    ASSERT_NO_FATAL_FAILURE(preempt(GetParam(), {kSlow}));
    EXPECT_EQ(number_of_checkpoints(), 1U);
    expect_the_rest(GetParam());
  });
}

TEST_F(Scenario, TwoWorkersArePreempted) {
  repeat([&] {
    const auto job = start("run", {kSlow});
    ASSERT_NO_FATAL_FAILURE(wait_for_a_moment(*job));
    const int first = random(0, kWorkers - 1);
    ASSERT_TRUE(job->send_to_rank(first, SIGTERM));
    job->send_to_rank((first + random(1, kWorkers - 1)) % kWorkers, SIGTERM);
    ASSERT_EQ(job->wait(kHang), 42) << job->out() << job->err();
    EXPECT_EQ(number_of_checkpoints(), 1U);
    expect_the_rest("run");
  });
}

TEST_F(Scenario, WorkersArePreemptedTwiceInARow) {
  repeat([&] {
    ASSERT_NO_FATAL_FAILURE(preempt("run", {kSlow}));
    ASSERT_NO_FATAL_FAILURE(preempt("run", {kSlow}));
    expect_the_rest("run");
  });
}

TEST_F(Scenario, AnErrorReachesAllWorkers) {
  repeat([&] {
    const int failing = random(0, kWorkers - 1);
    const int step = random(0, 1) == 0 ? 119 : random(0, 118);  // often the last step of all
    const std::string rank = std::to_string(failing);
    const auto job = start("run", {"step_us=500", "fail=" + rank + ":" + std::to_string(step)});
    EXPECT_EQ(job->wait(kHang), 3) << job->out() << job->err();
    EXPECT_THAT(job->out(), HasSubstr("rank " + rank + " failed, here by: worker " + rank + " raises"));
    EXPECT_THAT(job->out(), Not(HasSubstr("done"))) << "in step " << step;
    EXPECT_THAT(job->out(), Not(HasSubstr("other error")));
  });
}

TEST_F(Scenario, AnErrorEndsWorkersThatAreStuckInACollective) {
  const std::string rank = std::to_string(random(0, kWorkers - 1));
  const auto job = start("run", {"step_us=500", "stuck=1", "fail=" + rank + ":60"});
  EXPECT_NE(job->wait(40s).value_or(0), 0) << "within 40 s: " << job->out() << job->err();
  EXPECT_THAT(job->err(), HasSubstr("worker " + rank + " raises"));
  EXPECT_THAT(job->out(), Not(HasSubstr("done")));
}

TEST_F(Scenario, WithAGracePeriodTheTrainingContinues) {
  repeat([&] {
    // Most of the grace period is there for a machine that stands still.
    const auto job = start("run", {"step_us=100000", "grace_s=10"});
    ASSERT_NO_FATAL_FAILURE(wait_for_a_moment(*job));
    const int first = random(0, kWorkers - 1);
    ASSERT_TRUE(job->send_to_rank(first, SIGTERM));
    std::this_thread::sleep_for(300ms);
    job->send_to_rank(first, SIGTERM);  // a new notice in the countdown changes nothing
    ASSERT_EQ(job->wait(kHang), 42) << job->out() << job->err();
    EXPECT_EQ(number_of_checkpoints(), 2U);
    expect_the_rest("run");
  });
}

TEST_F(Scenario, AnExitFunctionThatReturnsContinuesAndReceivesTheNextNotice) {
  repeat([&] {
    const auto job = start("run", {"step_us=50000", "keep_running=1"});
    ASSERT_NO_FATAL_FAILURE(wait_for_a_moment(*job));
    job->send_to_rank(random(0, kWorkers - 1), SIGTERM);
    ASSERT_TRUE(wait_until([&] { return job->out().find("exit function") != std::string::npos; }, kHang));
    job->send_to_rank(random(0, kWorkers - 1), SIGTERM);
    EXPECT_EQ(job->wait(kHang), 0) << job->out() << job->err();
    EXPECT_THAT(job->out(), HasSubstr(kWholeRun));
    const auto out = job->out();
    EXPECT_NE(out.find("exit function"), out.rfind("exit function")) << out;
  });
}

TEST_F(Scenario, AWatcherFunctionGivesTheNoticeAndSigtermIsWatchedToo) {
  repeat([&] {
    const fs::path file = directory_ / "notice";
    fs::remove(file);
    const auto job = start("run", {kSlow, "watch=" + file.string()});
    ASSERT_NO_FATAL_FAILURE(wait_for_a_moment(*job));
    if (random(0, 1) == 0) {
      std::ofstream(file) << "soon";
    } else {
      ASSERT_TRUE(job->send_to_rank(random(0, kWorkers - 1), SIGTERM));
    }
    ASSERT_EQ(job->wait(kHang), 42) << job->out() << job->err();
    fs::remove(file);
    expect_the_rest("run");
  });
}

TEST_F(Scenario, ASaveFunctionInsteadOfTheSave) {
  repeat([&] {
    ASSERT_NO_FATAL_FAILURE(preempt("manager", {kSlow, "save_fn=instead"}));
    EXPECT_EQ(number_of_checkpoints(), 1U);
    expect_the_rest("manager", {"save_fn=instead"});
  });
}

TEST_F(Scenario, ASaveFunctionThatSavesBesidesIsAnErrorOnAllWorkers) {
  const auto job = start("manager", {kSlow, "save_fn=besides"});
  ASSERT_NO_FATAL_FAILURE(wait_for_a_moment(*job));
  ASSERT_TRUE(job->send_to_rank(random(0, kWorkers - 1), SIGTERM));
  EXPECT_EQ(job->wait(kHang).value_or(0), 3) << job->out() << job->err();
  EXPECT_THAT(job->err(), HasSubstr("save_fn_mode"));
  EXPECT_THAT(job->out(), Not(HasSubstr("done")));
}

TEST_F(Scenario, ASecondSignalWhileItSaves) {
  repeat([&] {
    const auto job = start("run", {kSlow});
    ASSERT_NO_FATAL_FAILURE(wait_for_a_moment(*job));
    const int told = random(0, kWorkers - 1);
    for (int i = 0; i < 100 && job->running(); ++i) {
      job->send_to_rank((told + i) % kWorkers, SIGTERM);
      std::this_thread::sleep_for(1ms);
    }
    ASSERT_EQ(job->wait(kHang), 42) << job->out() << job->err();
    expect_the_rest("run");
  });
}

TEST_F(Scenario, AHandlerThatOutlivesMpiEndsBefore) {
  const auto job = start("braceless", {});
  EXPECT_EQ(job->wait(kHang), 0) << job->out() << job->err();
  EXPECT_THAT(job->out(), HasSubstr("calls 15"));
  EXPECT_THAT(job->err(), HasSubstr("MPI_Finalize was called while a handler lives"));
}

}  // namespace
}  // namespace reprieve::test
