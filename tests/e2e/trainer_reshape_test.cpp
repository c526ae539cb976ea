// SPDX-License-Identifier: BSD-3-Clause
// Resuming on another number of ranks.

#include <signal.h>

#include <tuple>

#include "trainer_test.hpp"

namespace reprieve::test {
namespace {

class TrainerReshape : public TrainerTest, public ::testing::WithParamInterface<std::tuple<int, int>> {};
std::string change_text(const ::testing::TestParamInfo<std::tuple<int, int>>& change) {
  return std::to_string(std::get<0>(change.param)) + "To" + std::to_string(std::get<1>(change.param));
}

INSTANTIATE_TEST_SUITE_P(Trainer, TrainerReshape,
                         ::testing::Values(std::tuple(1, 3), std::tuple(2, 8), std::tuple(3, 2), std::tuple(4, 1),
                                           std::tuple(8, 4)),
                         change_text);

TEST_P(TrainerReshape, RestoresTheSameStateAndContinues) {
  const auto [before, after] = GetParam();
  const auto job = start_and_wait(before, 6);  // past the end of the first epoch
  ASSERT_TRUE(job->send_to_rank(before - 1, SIGTERM)) << job->out() << job->err();
  const Result preempted = expect_preempted(*job);

  const Result resumed = run(after);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.summary["restored_from"], "ckpt-" + preempted.summary["run_calls"].dump() + ".h5");
  EXPECT_EQ(resumed.summary["restored_shared_state_digest"], preempted.summary["shared_state_digest"]);
  EXPECT_EQ(resumed.summary["run_calls"], 200);
  // From here on it is another training: the noise on the images comes from other engines.
  EXPECT_GT(resumed.summary["accuracy"], 0.85);
  expect_tidy_directory();
}

}  // namespace
}  // namespace reprieve::test
