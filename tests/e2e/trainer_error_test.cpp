// SPDX-License-Identifier: BSD-3-Clause
// A step that fails on one rank: all ranks leave with an error that names it, none hangs, and what was saved is the
// start of the next run.

#include "trainer_test.hpp"

namespace reprieve::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class TrainerStepFailure : public TrainerOnRanks {
 protected:
  /// Runs the training with a failure in step 33; the checkpoint before it is that of step 30.
  void expect_failure(int rank, const std::string& point, const Environment& environment = {}) {
    MpiCommand failing = command(ranks(), {"--checkpoint-every", "10", "--fail-rank", std::to_string(rank),
                                           "--fail-step", "33", "--fail-point", point, "--step-delay-ms", "30"});
    failing.environment = environment;
    const Result failed = finish(*start(failing));
    EXPECT_EQ(failed.code, 1) << failed.out;
    EXPECT_THAT(failed.err, HasSubstr("rank " + std::to_string(rank)));
    EXPECT_THAT(failed.err, HasSubstr("failed on purpose"));
    EXPECT_TRUE(failed.summary.is_null());
    const Json report = Json::parse(read_text(checkpoints_ / "error.json"));
    EXPECT_EQ(report["rank"], rank);
    EXPECT_THAT(report["message"], HasSubstr("failed on purpose"));
    ASSERT_FALSE(checkpoint_files().empty());
    EXPECT_EQ(checkpoint_files().back().filename(), "ckpt-30.h5");
  }
};
REPRIEVE_ON_RANKS(TrainerStepFailure);

// Steps of this length are checked at every boundary, so the others hear of it before they begin another step.
TEST_P(TrainerStepFailure, ReachesAllRanks) {
  expect_failure(random_rank(), "end");
  EXPECT_EQ(events("error").size(), 1U);
  expect_same_end(ranks());
}

// The other ranks wait for the failing one in a collective call of the application, which nothing can end but an abort.
TEST_P(TrainerStepFailure, EndsTheJobWhenTheOthersAreStuck) {
  expect_failure(random_rank(), "begin", {{"REPRIEVE_TERMINATION_ERROR_TIMEOUT_S", "1"}});
  expect_same_end(ranks());
}

}  // namespace
}  // namespace reprieve::test
