// SPDX-License-Identifier: BSD-3-Clause
// Saving, restoring, and falling back past corrupt checkpoints.

#include "handler_fixture.hpp"
#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class RestoreTest : public ManagerTest {};

TEST_F(RestoreTest, InfoSaysWhatWasSaved) {
  CheckpointManager manager = open();
  CheckpointManager::SaveRequest request;
  request.number = 3;
  request.run_calls = 77;
  request.reason = {SaveReason::Kind::preemption, 1, "node7", "signal SIGTERM", "maintenance"};
  const auto before = std::chrono::system_clock::now() - std::chrono::seconds(1);
  state.set(12);
  const SaveReport report = manager.save(request);
  EXPECT_GT(report.seconds, 0.0);
  state.set(99);
  const auto restored = manager.restore_or_initialize([] { ADD_FAILURE() << "initialized beside a checkpoint"; });
  expect_state(12);
  const auto latest = manager.latest();
  ASSERT_TRUE(restored && latest);
  for (const CheckpointInfo& info : {*restored, *latest}) {
    EXPECT_EQ(info.path, directory / "ckpt-3.h5");
    EXPECT_EQ(info.path, report.path);
    EXPECT_EQ(info.number, 3U);
    EXPECT_EQ(info.number, report.number);
    EXPECT_GT(report.bytes, 0U);
    EXPECT_EQ(info.run_calls, 77U);
    EXPECT_EQ(info.world_size, world_size());
    EXPECT_GE(info.time, before);
    EXPECT_LE(info.time, std::chrono::system_clock::now() + std::chrono::seconds(1));
    EXPECT_EQ(info.size_bytes, std::filesystem::file_size(info.path));
    EXPECT_EQ(info.reason.kind, SaveReason::Kind::preemption);
    EXPECT_EQ(info.reason.rank, 1);
    EXPECT_EQ(info.reason.host, "node7");
    EXPECT_EQ(info.reason.source, "signal SIGTERM");
    EXPECT_EQ(info.reason.message, "maintenance");
    EXPECT_FALSE(info.files_directory.has_value());
  }
}

TEST_F(RestoreTest, WithoutCheckpointsInitializes) {
  CheckpointManager manager = open();
  int calls = 0;
  EXPECT_FALSE(manager.restore_or_initialize([&] { ++calls; }).has_value());
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(manager.restore_or_initialize().has_value());
  EXPECT_FALSE(manager.latest().has_value());
  EXPECT_TRUE(manager.checkpoints().empty());
}

TEST_F(RestoreTest, AnInitializeThatFailsOnOneRankFailsOnAll) {
  CheckpointManager manager = open();
  const int last = world_size() - 1;
  const SeenError error = same_error_on_all_ranks([&] {
    manager.restore_or_initialize([&] {
      if (world_rank() == last) {
        throw std::runtime_error("no input data");
      }
    });
  });
  EXPECT_EQ(error.code, ErrorCode::cluster);
  EXPECT_EQ(error.origin_rank, last);
  EXPECT_THAT(error.message, HasSubstr("no input data"));
}

TEST_F(RestoreTest, ListIsSortedByTheSavesAndLeavesOutWhatCannotBeRead) {
  CheckpointManager manager = open({.max_to_keep = 0});
  save_each(manager, {2, 10, 9});
  on_rank_0([&] {
    write_text(directory / "ckpt-11.h5", "not HDF5");
    write_text(directory / "ckpt-x.h5", "another file");
    std::filesystem::create_directory(directory / "ckpt-12.h5");
    std::filesystem::create_symlink("nowhere", directory / "ckpt-13.h5");
  });
  std::vector<std::uint64_t> numbers;
  for (const CheckpointInfo& info : manager.checkpoints()) {
    numbers.push_back(info.number);
  }
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{2, 10, 9}));
  const auto latest = manager.latest();
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->number, 9U);
}

TEST_F(RestoreTest, ListSeesCheckpointsThatWereReplaced) {
  CheckpointManager manager = open();
  save_each(manager, {1});
  const auto before = manager.checkpoints().at(0).time;
  save_each(manager, {1});
  EXPECT_GT(manager.checkpoints().at(0).time, before);
}

TEST_F(RestoreTest, ACheckpointThatDoesNotFitIsNotQuarantined) {
  run_with_saves({1, 2});
  double surplus = 0;
  state.checkpoint.add_replicated("surplus", surplus);
  CheckpointManager manager = open();
  EXPECT_THAT(same_error_on_all_ranks([&] { manager.restore_or_initialize(); }),
              is_error(ErrorCode::mismatch, "surplus"));
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5"}));
}

TEST_F(RestoreTest, TakesTheNewestValidCheckpoint) {
  run_with_saves({1, 2, 3, 4}, {.max_to_keep = 0});
  on_rank_0([&] {
    write_text(directory / "ckpt-4.h5", "");
    fs::resize_file(directory / "ckpt-3.h5", fs::file_size(directory / "ckpt-3.h5") / 2);
  });
  state.set(99);
  CheckpointManager manager = open({.max_to_keep = 0});
  const auto info = manager.restore_or_initialize([] { ADD_FAILURE() << "initialized in spite of a checkpoint"; });
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->number, 2U);
  expect_state(2);
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5", "ckpt-3.h5.corrupt", "ckpt-4.h5.corrupt"}));
}

TEST_F(RestoreTest, QuarantiningNeverReplacesWhatWasQuarantinedBefore) {
  CheckpointManager manager = open();
  for (int round = 0; round < 3; ++round) {
    save_each(manager, {1, 2});
    on_rank_0([&] { write_text(directory / "ckpt-2.h5", "corruption " + std::to_string(round)); });
    EXPECT_EQ(manager.restore_or_initialize()->number, 1U);
  }
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5.corrupt", "ckpt-2.h5.corrupt.2", "ckpt-2.h5.corrupt.3"}));
  EXPECT_EQ(read_text(directory / "ckpt-2.h5.corrupt"), "corruption 0");
  EXPECT_EQ(read_text(directory / "ckpt-2.h5.corrupt.3"), "corruption 2");
}

TEST_F(RestoreTest, WithNoValidCheckpointFailsEveryTime) {
  CheckpointManager manager = open();
  save_each(manager, {1, 2});
  on_rank_0([&] {
    write_text(directory / "ckpt-1.h5", "corruption");
    write_text(directory / "ckpt-2.h5", "corruption");
  });
  for (int round = 0; round < 2; ++round) {  // a restart must not start from the beginning either
    const SeenError error = same_error_on_all_ranks(
        [&] { manager.restore_or_initialize([] { ADD_FAILURE() << "initialized over corrupt checkpoints"; }); });
    EXPECT_EQ(error.code, ErrorCode::corrupt);
    EXPECT_THAT(error.message, AllOf(HasSubstr("ckpt-1.h5"), HasSubstr("ckpt-2.h5"), HasSubstr(directory.string())));
  }
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5"}));
}

// The newest checkpoint, whatever its number; numbers that the manager chooses; the calls of run in every file.

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
  on_rank_0([&] { fs::rename(directory / "ckpt-8.h5", directory / "ckpt-8.h5.corrupt"); });
  EXPECT_EQ(manager.save().number, 9U);
  manager.save_in_background({});
  EXPECT_EQ(manager.finish_background_save()->number, 10U);
}

TEST_F(OrderTest, AfterTheNewestWasDeletedTheRunContinuesFromTheOneBefore) {
  run_with_saves({1, 2});
  on_rank_0([&] { fs::remove(directory / "ckpt-2.h5"); });
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
  run_with_saves({5});
  run_with_saves({1}, other);
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
  run_with_saves({1});
  on_rank_0([&] { fs::copy_file(elsewhere / "ckpt-30.h5", directory / "ckpt-30.h5"); });
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
  run_with_saves({20, 10});
  const fs::path fresh = temporary / "fresh";
  on_rank_0([&] {
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
  run_with_saves({20, 10});
  on_rank_0([&] { fs::copy(directory, temporary / "copy", fs::copy_options::recursive); });
  CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, temporary / "copy");
  EXPECT_EQ(manager.restore_or_initialize()->number, 10U);
}

// --- with a handler ---

class CountedSaves : public testing::Test {
 protected:
  const SharedTemporaryDirectory temporary;
  const fs::path directory = temporary / "run";
};

TEST_F(CountedSaves, ThePreemptionsCheckpointIsTheOneThatIsRestored) {
  {
    Program program(directory);
    program.start();
    program.run(20);
    program.handler->manager().save(20'000);
    EXPECT_THROW(program.run(1000, notice_at(42, last_rank())), Preempted);
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
  EXPECT_THAT(same_error_on_all_ranks(
                  [&] { const PreemptionCheckpointHandler handler(MPI_COMM_WORLD, checkpoint, directory, config); }),
              is_error(ErrorCode::usage, "step_fn"));
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
