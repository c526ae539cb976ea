// SPDX-License-Identifier: BSD-3-Clause
// The newest checkpoint, whatever its number; numbers that the manager chooses; the calls of run in every file.

#include <csignal>

#include "handler_fixture.hpp"
#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class OrderTest : public ManagerTest {};

TEST_F(OrderTest, ARestoreTakesTheLastSaveNotTheHighestNumber) {
  {
    CheckpointManager manager = open();
    save_each(manager, {20'000, 42});
    const auto latest = manager.latest();
    ASSERT_TRUE(latest.has_value());
    EXPECT_EQ(latest->number, 42U);
    EXPECT_EQ(latest->run, 1U);
    EXPECT_EQ(latest->save, 2U);
    const auto all = manager.checkpoints();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all.front().number, 20'000U);
  }
  CheckpointManager manager = open();
  ASSERT_TRUE(manager.restore_or_initialize().has_value());
  expect_state(42);
}

TEST_F(OrderTest, RetentionKeepsTheLastSaves) {
  ManagerOptions options;
  options.max_to_keep = 2;
  CheckpointManager manager = open(options);
  save_each(manager, {900, 1, 800, 2});
  EXPECT_EQ(names(), (Names{"ckpt-800.h5", "ckpt-2.h5"}));
}

TEST_F(OrderTest, ANumberThatIsSavedAgainIsTheNewest) {
  CheckpointManager manager = open();
  save_each(manager, {1, 2, 1});
  EXPECT_EQ(manager.latest()->number, 1U);
  EXPECT_EQ(manager.latest()->save, 3U);
}

TEST_F(OrderTest, WithoutANumberTheNextOneIsTaken) {
  CheckpointManager manager = open();
  EXPECT_EQ(manager.save().number, 1U);
  save_each(manager, {7, 3});
  EXPECT_EQ(manager.save().number, 8U);
  on_chief([&] { fs::rename(directory / "ckpt-8.h5", directory / "ckpt-8.h5.corrupt"); });
  EXPECT_EQ(manager.save().number, 9U);
  manager.save_in_background({});
  EXPECT_EQ(manager.finish_background_save()->number, 10U);
}

TEST_F(OrderTest, RanksThatDisagreeOnTheNumberAllHearIt) {
  REPRIEVE_NEEDS_RANKS(2);
  CheckpointManager manager = open();
  const SeenError error = same_error_on_all_ranks([&] {
    if (world_rank() == 0) {
      manager.save();
    } else {
      manager.save(5);
    }
  });
  EXPECT_EQ(error.code, ErrorCode::usage);
  EXPECT_THAT(error.message, HasSubstr("saves checkpoint 5 while rank 0 is saving the next checkpoint"));
  EXPECT_TRUE(names().empty());
}

TEST_F(OrderTest, AfterTheNewestWasDeletedTheRunContinuesFromTheOneBefore) {
  {
    CheckpointManager manager = open();
    save_each(manager, {1, 2});
  }
  on_chief([&] { fs::remove(directory / "ckpt-2.h5"); });
  CheckpointManager manager = open();
  ASSERT_TRUE(manager.restore_or_initialize().has_value());
  expect_state(1);
  save_each(manager, {2});
  EXPECT_EQ(manager.latest()->save, 3U) << "the counter of the deleted one is not given out again";
  EXPECT_EQ(manager.latest()->run, 2U);
}

TEST_F(OrderTest, TwoPrefixesHaveTheirOwnNewest) {
  ManagerOptions other;
  other.prefix = "other";
  {
    CheckpointManager manager = open();
    save_each(manager, {5});
  }
  {
    CheckpointManager manager = open(other);
    save_each(manager, {1});
  }
  CheckpointManager manager = open();
  EXPECT_EQ(manager.restore_or_initialize()->number, 5U);
}

TEST_F(OrderTest, AFileOfAnotherDirectoryIsTakenOnlyIfItIsNamed) {
  const fs::path elsewhere = temporary / "elsewhere";
  {
    CheckpointManager other(MPI_COMM_WORLD, state.checkpoint, elsewhere);
    for (int i = 0; i < 3; ++i) {
      state.set(30);
      other.save(30);
    }
  }
  {
    CheckpointManager manager = open();
    save_each(manager, {1});
  }
  on_chief([&] { fs::copy_file(elsewhere / "ckpt-30.h5", directory / "ckpt-30.h5"); });
  ManagerOptions options;
  options.max_to_keep = 1;
  CheckpointManager manager = open(options);
  EXPECT_EQ(manager.restore_or_initialize()->number, 1U);
  expect_state(1);
  EXPECT_EQ(manager.latest()->number, 1U);
  EXPECT_EQ(manager.restore(directory / "ckpt-30.h5").number, 30U);
  expect_state(30);
  EXPECT_EQ(manager.save().number, 31U);
  EXPECT_EQ(names(), (Names{"ckpt-30.h5", "ckpt-31.h5"})) << "what somebody put there is not retired";
}

TEST_F(OrderTest, FilesOfOneOtherDirectoryAloneAreTaken) {
  {
    CheckpointManager manager = open();
    save_each(manager, {20, 10});
  }
  const fs::path fresh = temporary / "fresh";
  on_chief([&] {
    fs::create_directory(fresh);
    for (const char* name : {"ckpt-20.h5", "ckpt-10.h5"}) {
      fs::copy_file(directory / name, fresh / name);
    }
  });
  CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, fresh);
  EXPECT_EQ(manager.restore_or_initialize()->number, 10U);
  state.set(3);
  manager.save(3);
  EXPECT_EQ(manager.latest()->number, 3U);
  EXPECT_EQ(manager.latest()->run, 2U) << "the runs of the files count on";
}

TEST_F(OrderTest, ACopiedDirectoryContinues) {
  {
    CheckpointManager manager = open();
    save_each(manager, {20, 10});
  }
  on_chief([&] { fs::copy(directory, temporary / "copy", fs::copy_options::recursive); });
  CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, temporary / "copy");
  EXPECT_EQ(manager.restore_or_initialize()->number, 10U);
}

// --- with a handler ---

class CountedSaves : public testing::Test {
 protected:
  const SharedTemporaryDirectory temporary;
  const fs::path directory = temporary / "run";
};

TEST_F(CountedSaves, AUsersSaveHoldsTheCallsOfRun) {
  {
    Program program(directory);
    program.start();
    program.run(50);
    program.handler->manager().save(7);
  }
  Program program(directory);
  program.start();
  EXPECT_EQ(program.handler->total_run_calls(), 50U);
  EXPECT_EQ(program.handler->restored_from()->run_calls, 50U);
  program.run(100);
  EXPECT_EQ(program.counter, 100);
}

TEST_F(CountedSaves, ThePreemptionsCheckpointIsTheOneThatIsRestored) {
  {
    Program program(directory);
    program.start();
    program.run(20);
    program.handler->manager().save(20'000);
    EXPECT_THROW(program.run(200,
                             [](int step) {
                               if (step == 42 && world_rank() == world_size() - 1) {
                                 std::raise(SIGTERM);
                               }
                             }),
                 Preempted);
  }
  Program program(directory);
  program.start();
  EXPECT_GE(program.handler->total_run_calls(), 42U);
  EXPECT_EQ(program.handler->restored_from()->number, 20'001U);
  EXPECT_EQ(program.counter, static_cast<int>(program.handler->total_run_calls()));
}

TEST_F(CountedSaves, WithoutAHandlerNothingIsCountedAndAHandlerSaysSo) {
  int counter = 9;
  Checkpoint checkpoint;
  checkpoint.add_replicated("counter", counter);
  {
    CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory);
    manager.save(9);
    EXPECT_FALSE(manager.latest()->run_calls.has_value());
  }
  TerminationConfig config;
  const SeenError error = same_error_on_all_ranks(
      [&] { const PreemptionCheckpointHandler handler(MPI_COMM_WORLD, checkpoint, directory, config); });
  EXPECT_EQ(error.code, ErrorCode::usage);
  EXPECT_THAT(error.message, HasSubstr("step_fn"));
  config.step_fn = [&] { return static_cast<std::uint64_t>(counter); };
  const PreemptionCheckpointHandler handler(MPI_COMM_WORLD, checkpoint, directory, config);
  EXPECT_EQ(handler.total_run_calls(), 9U);
}

TEST_F(CountedSaves, ARestoreByNameTakesTheCountBack) {
  Program program(directory);
  program.start();
  program.run(5);
  const auto path = program.handler->manager().save().path;
  EXPECT_EQ(path.filename(), "ckpt-5.h5");
  program.run(9);
  program.handler->manager().restore(path);
  EXPECT_EQ(program.handler->total_run_calls(), 5U);
  EXPECT_EQ(program.counter, 5);
  program.run(9);
  EXPECT_EQ(program.counter, 9);
}

}  // namespace
}  // namespace reprieve::test
