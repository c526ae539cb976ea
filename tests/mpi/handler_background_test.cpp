// SPDX-License-Identifier: BSD-3-Clause
// The handler with saves in the background: when they are committed, and what a preemption makes of them.

#include <algorithm>

#include "handler_fixture.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {
namespace {

using namespace std::chrono_literals;

class HandlerInBackground : public testing::Test {
 protected:
  /// A program that saves every so many steps.
  [[nodiscard]] std::unique_ptr<Program> program(std::uint64_t save_every_steps) const {
    auto made = std::make_unique<Program>(directory_ / "run");
    made->options.background = true;
    made->options.max_to_keep = 0;
    made->config.save_every_steps = save_every_steps;
    return made;
  }

  /// Numbers of all events of a kind, in order.
  [[nodiscard]] std::vector<std::uint64_t> numbers_of(const std::string& kind) const {
    MPI_Barrier(MPI_COMM_WORLD);
    std::vector<std::uint64_t> numbers;
    for (const auto& event : events_of_run(directory_ / "run", kind)) {
      numbers.push_back(event.at("number"));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return numbers;
  }

  /// Every checkpoint holds the state of its own step.
  void expect_sound_checkpoints(const std::vector<std::uint64_t>& numbers) const {
    Program check(directory_ / "run");
    check.start();
    CheckpointManager& manager = check.handler->manager();
    std::vector<std::uint64_t> found;
    for (const CheckpointInfo& info : manager.checkpoints()) {
      manager.restore(info.path);
      EXPECT_EQ(static_cast<std::uint64_t>(check.counter), info.number);
      EXPECT_EQ(check.field, uninterrupted(check.counter));
      found.push_back(info.number);
    }
    EXPECT_EQ(found, numbers);
  }

  const SharedTemporaryDirectory directory_;
};

TEST_F(HandlerInBackground, PeriodicSavesAreCommittedWhileTheProgramContinues) {
  const auto job = program(100);
  job->start();
  bool was_committed_before_the_end = false;
  job->run(450, [&](int step) {
    // The commit is collective: all ranks see it from the same boundary on.
    was_committed_before_the_end |= step > 350 && !job->handler->manager().background_save_pending();
  });
  job->handler.reset();
  expect_same_on_all_ranks(was_committed_before_the_end ? 1 : 0);
  EXPECT_EQ(numbers_of("save_finished"), (std::vector<std::uint64_t>{100, 200, 300, 400}));
  expect_sound_checkpoints({100, 200, 300, 400});
  EXPECT_EQ(job->field, uninterrupted(450));
}

TEST_F(HandlerInBackground, ASaveMayWaitForTheOneBefore) {
  const auto job = program(1);
  job->step_time = 0us;
  job->start();
  job->run(6);
  job->handler.reset();
  expect_sound_checkpoints({1, 2, 3, 4, 5});
}

TEST_F(HandlerInBackground, ASaveMayBeLeftOutForTheOneBefore) {
  const auto job = program(1);
  job->options.background_busy = BackgroundBusy::skip;
  job->step_time = 0us;
  std::vector<double> large(std::size_t{1} << 20, 1.0);  // takes longer to write than some steps
  job->checkpoint().add_per_rank("large", large);
  job->start();
  job->run(40);
  job->handler.reset();
  const auto skipped = numbers_of("save_skipped");
  const auto finished = numbers_of("save_finished");
  EXPECT_FALSE(skipped.empty());
  EXPECT_FALSE(finished.empty());
  EXPECT_EQ(skipped.size() + finished.size(), 39U);
}

TEST_F(HandlerInBackground, APreemptionSavesItsOwnStepAfterTheOneBefore) {
  const auto job = program(50);
  job->start();
  EXPECT_THROW(job->run(1000, notice_at(51, last_rank())), Preempted);
  const std::uint64_t saved_at = job->handler->total_run_calls();
  job->handler.reset();
  // The one of step 100 is left out if the ranks have agreed on a step soon after it by then.
  const std::vector<std::uint64_t> saved = numbers_of("save_finished");
  ASSERT_GE(saved.size(), 2U);
  EXPECT_EQ(saved.front(), 50U);
  EXPECT_EQ(saved.back(), saved_at);
  EXPECT_TRUE(std::all_of(saved.begin(), saved.end() - 1, [](std::uint64_t number) { return number % 50 == 0; }));
  expect_sound_checkpoints(saved);
}

TEST_F(HandlerInBackground, AnErrorOfAStepDoesNotCostTheSaveUnderWay) {
  const auto job = program(50);
  job->start();
  const auto run_until_an_error = [&] {
    for (;;) {
      job->handler->run([&] {
        if (world_rank() == world_size() - 1 && job->counter == 51) {
          throw std::runtime_error("diverged");
        }
        job->step();
      });
    }
  };
  EXPECT_THROW(run_until_an_error(), ClusterError);
  job->handler.reset();
  expect_sound_checkpoints({50});
}

}  // namespace
}  // namespace reprieve::test
