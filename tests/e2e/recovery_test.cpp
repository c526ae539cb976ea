// SPDX-License-Identifier: BSD-3-Clause
// A process that keeps running while its workers are taken.

#include <gmock/gmock.h>

#include <csignal>
#include <stdexcept>

#include "e2e/limits.hpp"
#include "support/process.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Options = std::vector<std::string>;

/// The words of a worker that runs in this directory.
Options worker(const std::string& directory, const Options& options) {
  return joined({program("reprieve-recovery"), "--worker", "--directory", directory, "--steps", "100"}, options);
}

class Recovery : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Mpirun> start(const Options& options, int ranks = 2) const {
    return std::make_unique<Mpirun>(
        MpiCommand{.ranks = ranks,
                   .arguments = worker(directory_of_run_.string(), options),
                   .launch_prefix = {program("reprieve-recovery"), "--directory", directory_of_run_.string(), "--"}});
  }

  /// How often the log of the run says so.
  [[nodiscard]] std::size_t count(const std::string& event) const {
    return events_of(read_text(directory_of_run_ / "events.jsonl"), event).size();
  }

  void wait_for(Mpirun& job, const std::string& event, std::size_t times) const {
    ASSERT_TRUE(wait_until([&] { return count(event) >= times || !job.running(); }, kHang)) << job.err();
    ASSERT_GE(count(event), times) << job.err();
  }

  TemporaryDirectory directory_;
  std::filesystem::path directory_of_run_ = directory_ / "run";
};

/// What an undisturbed run prints.
std::string undisturbed() {
  const TemporaryDirectory directory;
  Mpirun job({.ranks = 2, .arguments = worker(directory / "run", {"--step-ms", "0"})});
  if (job.wait(kHang) != 0) {
    throw std::runtime_error("the undisturbed run failed: " + job.err());
  }
  return job.out();
}

TEST_F(Recovery, StartsItsWorkersAgainAfterASigterm) {
  const auto job = start({"--step-ms", "50"});
  wait_for(*job, "ready", 1);
  ASSERT_TRUE(job->send_to_rank(1, SIGTERM));
  wait_for(*job, "ready", 2);
  EXPECT_TRUE(job->running()) << "the process that started them runs on";
  ASSERT_TRUE(job->send_to_rank(0, SIGTERM));
  EXPECT_EQ(job->wait(kHang), 0) << job->err();
  EXPECT_THAT(job->err(), HasSubstr("ended with code 42, after a preemption (signal SIGTERM on rank 1)"));
  EXPECT_EQ(count("exit"), 2U);
  EXPECT_EQ(job->out(), undisturbed());
  EXPECT_TRUE(job->wait_for_descendants(kHang));
}

TEST_F(Recovery, AnErrorInTheMiddleOfTheGracePeriodIsAConsequence) {
  const auto job = start({"--step-ms", "50", "--grace", "20", "--fail-in-grace"});
  wait_for(*job, "ready", 1);
  ASSERT_TRUE(job->send_to_rank(0, SIGTERM));
  EXPECT_EQ(job->wait(kHang), 0) << job->err();
  EXPECT_THAT(job->err(), HasSubstr("a device of this node has gone already"));
  EXPECT_THAT(job->err(), HasSubstr("after a preemption (signal SIGTERM on rank 0)"));
  EXPECT_EQ(count("exit"), 0U) << "it never came to the second save";
  EXPECT_EQ(count("finished"), 1U);
  EXPECT_EQ(job->out(), undisturbed());
}

TEST_F(Recovery, AnErrorWithoutAPreemptionIsAnError) {
  const auto job = start({"--step-ms", "50"});
  wait_for(*job, "ready", 1);
  ASSERT_TRUE(job->send_to_rank(1, SIGKILL));
  EXPECT_EQ(job->wait(kHang), 1);
  EXPECT_THAT(job->err(), HasSubstr("reprieve-recovery: the workers"));
  EXPECT_EQ(count("ready"), 1U);
}

}  // namespace
}  // namespace reprieve::test
