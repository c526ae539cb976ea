// SPDX-License-Identifier: BSD-3-Clause
// Time loops that are not one call of run() per step, and programs that leave in their own order.

#include <atomic>
#include <csignal>
#include <string>
#include <vector>

#include "handler_fixture.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

std::vector<std::uint64_t> numbers_of(const PreemptionCheckpointHandler& handler) {
  std::vector<std::uint64_t> numbers;
  for (const CheckpointInfo& info : handler.manager().checkpoints()) {
    numbers.push_back(info.number);
  }
  return numbers;
}

class Loops : public testing::Test {
 protected:
  Loops() { program_.emplace(directory_ / "run"); }

  /// The next start of the program, with the same settings.
  void start_again() {
    const TerminationConfig config = program_->config;
    const ManagerOptions options = program_->options;
    program_.reset();
    program_.emplace(directory_ / "run");
    program_->config = config;
    program_->options = options;
  }

  [[nodiscard]] PreemptionCheckpointHandler& handler() { return *program_->handler; }

  SharedTemporaryDirectory directory_;
  std::optional<Program> program_;
};

TEST_F(Loops, ThatOnlyAskAtBoundariesNumberTheirCheckpoints) {
  constexpr int kLives = 5;
  int counter = 0;
  program_->config.count_boundaries = false;
  for (int life = 0; life < kLives; ++life) {
    start_again();
    program_->start();
    EXPECT_EQ(program_->counter, counter) << "the newest one is restored";
    try {
      for (int step = 0; step < 100'000; ++step) {
        if (step == 10 && world_rank() == last_rank()) {
          std::raise(SIGTERM);
        }
        handler().save_checkpoint_if_preempted();
        program_->step();
      }
      FAIL() << "was not preempted";
    } catch (const Preempted&) {
      counter = program_->counter;
      EXPECT_EQ(handler().last_save()->number, life);
    }
  }
  EXPECT_EQ(handler().total_run_calls(), 0U);
  EXPECT_EQ(numbers_of(handler()), (std::vector<std::uint64_t>{2, 3, 4})) << "three are kept, the newest ones";
}

TEST_F(Loops, ThatAskAtEveryHundredthStepSaveUnderTheirOwnStep) {
  program_->step_time = 100us;
  program_->config.step_fn = [this] { return static_cast<std::uint64_t>(program_->counter); };
  program_->start();
  int saved_at = -1;
  try {
    while (program_->counter < 100'000) {
      if (program_->counter % 100 == 0) {
        handler().save_checkpoint_if_preempted();
      }
      if (program_->counter == 150 && world_rank() == last_rank()) {
        std::raise(SIGTERM);  // nobody asks for 50 steps
      }
      program_->step();
    }
    FAIL() << "was not preempted";
  } catch (const Preempted& preempted) {
    saved_at = program_->counter;
    EXPECT_EQ(saved_at % 100, 0);
    EXPECT_GE(saved_at, 200);
    ASSERT_TRUE(handler().last_save());
    EXPECT_EQ(handler().last_save()->number, saved_at);
    EXPECT_EQ(handler().last_save()->path.filename(), "ckpt-" + std::to_string(saved_at) + ".h5");
    EXPECT_EQ(preempted.context().checkpoint, handler().last_save()->path);
  }
  start_again();
  program_->start();
  EXPECT_EQ(program_->counter, saved_at);
  EXPECT_EQ(handler().restored_from()->number, saved_at);
  EXPECT_FALSE(handler().last_save()) << "of this handler";
}

TEST_F(Loops, PeriodicSavesCountTheProgramsOwnSteps) {
  program_->step_time = 0us;
  program_->options.max_to_keep = 0;
  program_->config.step_fn = [this] { return static_cast<std::uint64_t>(program_->counter); };
  program_->config.save_every_steps = 100;
  program_->start();
  while (program_->counter < 1000) {
    handler().save_checkpoint_if_preempted();
    for (int cycle = 0; cycle < 30; ++cycle) {  // passes the multiples of 100
      program_->step();
    }
  }
  EXPECT_EQ(numbers_of(handler()), (std::vector<std::uint64_t>{120, 210, 300, 420, 510, 600, 720, 810, 900}));
}

TEST_F(Loops, StepsThatFallDoNotHideTheNewestState) {
  int step = 500;
  program_->config.step_fn = [&] { return static_cast<std::uint64_t>(step); };
  const auto save = [&] {
    handler().request_checkpoint();
    const auto before = handler().last_save() ? handler().last_save()->number : 0;
    while (!handler().last_save() || handler().last_save()->number == before) {
      handler().save_checkpoint_if_preempted();
    }
  };
  program_->start();
  save();
  step = 20;
  program_->counter = 7;
  save();
  EXPECT_EQ(handler().last_save()->number, 501U);
  start_again();
  program_->start();
  EXPECT_EQ(program_->counter, 7);
}

class ReturnWhenSaved : public Loops {
 protected:
  /// A program that leaves in its own order.
  void prepare() {
    program_->config.exit_fn = {};
    program_->config.return_when_saved = true;
  }
};

TEST_F(ReturnWhenSaved, TheLoopEndsByItsOwnConditionAndNothingIsSavedAnyMore) {
  constexpr int kSteps = 20'000;
  prepare();
  program_->config.save_every_steps = 1000;
  program_->start();
  int asked = 0;
  while (program_->counter < kSteps) {
    if (program_->counter % 100 == 0) {
      MPI_Barrier(MPI_COMM_WORLD);  // no rank comes to the first periodic save before another has its notice
    }
    if (program_->counter == 30 && world_rank() == last_rank()) {
      std::raise(SIGTERM);
    }
    handler().save_checkpoint_if_preempted();
    expect_same_on_all_ranks(handler().preempted());
    if (handler().preempted()) {
      break;
    }
    EXPECT_EQ(handler().exit_code(), 0);
    program_->step();
    ++asked;
  }
  const int saved_at = program_->counter;
  EXPECT_LT(saved_at, kSteps);
  expect_same_on_all_ranks(saved_at);
  EXPECT_EQ(handler().exit_code(), 42);
  ASSERT_TRUE(handler().last_save());

  // The program continues for a while, as one does that has to come to an end.
  std::raise(SIGUSR1);
  handler().request_checkpoint();
  for (int step = 0; step < 2000; ++step) {
    handler().run([&] { program_->step(); });
    handler().save_checkpoint_if_preempted();
  }
  {
    auto scope = handler().watch_preemption_scope(ScopeMode::save_at_end);
    scope.close();
  }
  EXPECT_TRUE(handler().preempted());
  EXPECT_EQ(handler().exit_code(), 42);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(events_of_run(directory_ / "run", "save_finished").size(), 1U);

  start_again();
  program_->start();
  EXPECT_EQ(program_->counter, saved_at);
  for (int step = 0; step < 300; ++step) {
    handler().save_checkpoint_if_preempted();
  }
  EXPECT_FALSE(handler().preempted()) << "the notice went with its handler";
}

TEST_F(ReturnWhenSaved, ADifferentErrorStillReachesAllRanks) {
  prepare();
  program_->start();
  while (!handler().preempted()) {
    std::raise(SIGTERM);
    handler().save_checkpoint_if_preempted();
  }
  EXPECT_THROW(
      {
        for (int step = 0; step < 100'000; ++step) {
          handler().run([&] {
            if (world_rank() == last_rank() && step == 5) {
              throw std::runtime_error("output failed");
            }
            program_->step();
          });
        }
      },
      ClusterError);
}

TEST_F(ReturnWhenSaved, TheExitFunctionIsCalledOnceBeforeIt) {
  prepare();
  int exits = 0;
  program_->config.exit_fn = [&](const ExitContext& context) {
    ++exits;
    EXPECT_EQ(context.exit_code, 42);
  };
  program_->start();
  for (int step = 0; step < 1000; ++step) {
    if (step == 10) {
      std::raise(SIGTERM);
    }
    handler().run([&] { program_->step(); });
  }
  EXPECT_EQ(exits, 1);
  EXPECT_TRUE(handler().preempted());
}

TEST_F(ReturnWhenSaved, AfterAGracePeriodWithTwoSaves) {
  prepare();
  // The signal leaves enough time for two saves on any machine; after the first one the end comes near.
  std::atomic<bool> end_is_near = false;
  program_->step_time = 2ms;
  program_->config.grace_period = 10min;
  program_->config.grace_margin = 100ms;
  program_->config.poll_interval = 10ms;
  program_->config.termination_watcher_fn = [&] {
    WatchResult result(end_is_near);
    result.time_left = 100ms;
    return result;
  };
  program_->start();
  for (int step = 0; step < 100'000 && handler().exit_code() == 0; ++step) {
    if (step == 10 && world_rank() == last_rank()) {
      std::raise(SIGTERM);
    }
    handler().save_checkpoint_if_preempted();
    end_is_near = handler().last_save().has_value();
    program_->step();
  }
  EXPECT_EQ(handler().exit_code(), 42);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(events_of_run(directory_ / "run", "save_finished").size(), 2U);
  program_->handler.reset();  // it asks the function above
}

TEST_F(ReturnWhenSaved, AScopeTellsFirstAndSavesAtItsEnd) {
  prepare();
  program_->start();
  auto scope = handler().watch_preemption_scope(ScopeMode::save_at_end);
  while (!handler().preempted()) {
    if (program_->counter == 20 && world_rank() == last_rank()) {
      std::raise(SIGTERM);
    }
    handler().save_checkpoint_if_preempted();
    program_->step();
  }
  EXPECT_EQ(handler().exit_code(), 0) << "not saved yet";
  EXPECT_FALSE(handler().last_save());
  scope.close();
  EXPECT_EQ(handler().exit_code(), 42);
  EXPECT_TRUE(handler().last_save());
}

}  // namespace
}  // namespace reprieve::test
