// SPDX-License-Identifier: BSD-3-Clause
// A run that was finished does no work twice, and can be given more steps.

#include "handler_fixture.hpp"
#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class FinishedTest : public testing::Test {
 protected:
  /// Makes steps up to @p steps, saves at @p saved_at, and says that this was all.
  void finish(int steps, int saved_at) {
    Program program(directory);
    program.start();
    program.run(saved_at);
    program.handler->manager().save();
    program.run(steps);
    program.handler->finish();
  }
  const SharedTemporaryDirectory temporary;
  const fs::path directory = temporary / "run";
};

TEST_F(FinishedTest, WithItsLastStateThereIsNothingToDoButMoreSteps) {
  finish(10, 10);
  Program program(directory);
  program.start();
  EXPECT_EQ(program.handler->already_finished(), 10U);
  int calls = 0;
  program.run(10, [&](int) { ++calls; });
  EXPECT_EQ(calls, 0);
  program.run(15, [&](int) { ++calls; });
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(program.counter, 15);
}

TEST_F(FinishedTest, WithoutItsLastStateAStartIsAnError) {
  finish(12, 10);
  for (int attempt = 0; attempt < 2; ++attempt) {
    Program program(directory);
    const SeenError error = same_error_on_all_ranks([&] { program.start(); });
    EXPECT_EQ(error.code, ErrorCode::usage);
    EXPECT_THAT(error.message, AllOf(HasSubstr("already finished, at step 12"), HasSubstr("holds step 10"),
                                     HasSubstr("restart_finished")));
  }
  Program program(directory);
  program.options.restart_finished = true;
  program.start();
  program.run(20);
  EXPECT_EQ(program.counter, 20);
}

TEST_F(FinishedTest, ALaterSaveTakesTheMarkAway) {
  finish(10, 10);
  {
    Program program(directory);
    program.start();
    program.run(13);
    program.handler->manager().save();
    program.run(14);
  }
  Program program(directory);
  program.start();
  EXPECT_FALSE(program.handler->already_finished().has_value());
  EXPECT_EQ(program.handler->total_run_calls(), 13U);
}

TEST_F(FinishedTest, WhoRemovesTheNewestGoesBack) {
  finish(12, 10);
  on_chief([&] { fs::remove(directory / "ckpt-10.h5"); });
  Program program(directory);
  program.start();
  EXPECT_FALSE(program.handler->already_finished().has_value());
  EXPECT_EQ(program.handler->total_run_calls(), 0U);
}

TEST_F(FinishedTest, ASaveAfterTheEndStillHasTheCount) {
  Program program(directory);
  program.start();
  program.run(3);
  CheckpointManager& manager = program.handler->manager();
  EXPECT_EQ(manager.save().number, 3U);
  EXPECT_EQ(manager.latest().value().run_calls, 3U);
  program.handler->finish();
  EXPECT_EQ(manager.save(50).number, 50U) << "after the end the count is still known";
  EXPECT_EQ(manager.latest().value().run_calls, 3U);
}

TEST_F(FinishedTest, ARunThatWasNotFinishedContinues) {
  {
    Program program(directory);
    program.start();
    program.run(5);
    program.handler->manager().save();
    program.run(7);
  }
  Program program(directory);
  program.start();
  EXPECT_FALSE(program.handler->already_finished().has_value());
  EXPECT_EQ(program.handler->total_run_calls(), 5U);
}

}  // namespace
}  // namespace reprieve::test
