// SPDX-License-Identifier: BSD-3-Clause
// Watching a run from inside, and scopes that are left in every way.

#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <stdexcept>

#include "handler_fixture.hpp"
#include "reprieve/preemption_watcher.hpp"
#include "support/child.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

bool wait_for(const std::atomic<int>& value, int wanted) {
  for (int i = 0; i < 6000 && value != wanted; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  return value == wanted;
}

class WatcherInside : public ProgramTest {};

TEST_F(WatcherInside, EveryRankKeepsTheNoticeOfOne) {
  program.start();
  std::atomic<int> told{-1};
  const int last = world_size() - 1;
  const PreemptionWatcher watcher(*program.handler, [&](const PreemptionMessage& message) { told = message.rank; });
  EXPECT_FALSE(watcher.preemption_message());
  EXPECT_THROW(program.run(100'000, notice_at(20, last)), Preempted);
  EXPECT_TRUE(wait_for(told, last));
  ASSERT_TRUE(watcher.preemption_message());
  EXPECT_EQ(watcher.preemption_message()->rank, last);
  EXPECT_EQ(watcher.preemption_message()->source, "signal SIGTERM");
  EXPECT_EQ(watcher.platform().platform, program.handler->platform().platform);
  expect_same_on_all_ranks(watcher.platform().platform);
  watcher.block_until_worker_exit();  // would wait for itself
}

TEST_F(WatcherInside, MayOutliveItsHandlerAndEndsItsThread) {
  program.start();
  const std::ptrdiff_t before = threads_of_this_process();
  {
    const PreemptionWatcher watcher(*program.handler);
    EXPECT_EQ(threads_of_this_process(), before + 1);
    program.handler.reset();
    EXPECT_FALSE(watcher.preemption_message());
  }
  EXPECT_LE(threads_of_this_process(), before);
}

/// A handler whose exit function comes back.
class Scope : public ::testing::Test {
 protected:
  Scope() {
    program_.config.exit_fn = [this](const ExitContext&) { ++exits_; };
    program_.start();
  }
  /// A signal that nothing was saved for would be a notice to the next handler of this process.
  ~Scope() override { termination::acknowledge_signals({SIGTERM}); }

  /// How many steps a notice takes to be heard depends on how the ranks agree.
  void run_until_preempted() {
    for (int step = 0; step < 100'000 && !program_.handler->preempted(); ++step) {
      notice_at(10, 0)(step);
      program_.handler->run([&] { program_.step(); });
    }
  }

  SharedTemporaryDirectory directory_;
  Program program_{directory_ / "run"};
  int exits_ = 0;
};

TEST_F(Scope, ANoOpExitLeadsBackIntoTheLoop) {
  for (const int goal : {40, 80}) {
    auto scope = program_.handler->watch_preemption_scope(ScopeMode::save_at_end);
    program_.run(goal, notice_at(goal - 30, last_rank()));
  }
  EXPECT_EQ(exits_, 2);
  EXPECT_EQ(program_.handler->manager().latest()->number, 80U);
  EXPECT_FALSE(program_.handler->preempted());
}

TEST_F(Scope, LeftByAnExceptionItSavesWhatIsMarkedAndExits) {
  try {
    auto scope = program_.handler->watch_preemption_scope(ScopeMode::save_at_end);
    run_until_preempted();
    ASSERT_TRUE(program_.handler->preempted());
    throw std::runtime_error("of the application");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "of the application");
  }
  EXPECT_EQ(exits_, 1);
  EXPECT_EQ(program_.handler->manager().latest()->number, program_.handler->total_run_calls());
}

// The state is in the middle of a step: no checkpoint may be made of it.
TEST_F(Scope, AFailedStepIsNotSaved) {
  try {
    auto scope = program_.handler->watch_preemption_scope(ScopeMode::save_at_end);
    run_until_preempted();
    ASSERT_TRUE(program_.handler->preempted());
    program_.handler->run([] {
      if (world_rank() == world_size() - 1) {
        throw std::runtime_error("in a step");
      }
    });
    // The other ranks hear of it at their next boundary.
    program_.run(200'000);
    FAIL() << "nobody heard of the error";
  } catch (const ClusterError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("in a step"));
    EXPECT_EQ(error.origin_rank(), world_size() - 1);
  }
  EXPECT_EQ(exits_, 0);
  EXPECT_TRUE(program_.handler->manager().checkpoints().empty());
}

}  // namespace
}  // namespace reprieve::test
