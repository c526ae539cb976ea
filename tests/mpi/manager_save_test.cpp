// SPDX-License-Identifier: BSD-3-Clause
// The commit: save functions, retention, errors, events, and what dead runs leave behind.

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <thread>

#include "manager/manager_impl.hpp"
#include "manager_fixture.hpp"
#include "storage/read/inspect_file.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class SaveTest : public ManagerTest {
 protected:
  /// A save function that writes a file of the given content on every rank.
  static SaveFn writes(const std::string& content) {
    return [content](const SaveFnContext& context) { write_text(context.write_directory / "sub/note.txt", content); };
  }

  static SaveReport save_with(CheckpointManager& manager, std::uint64_t number, SaveFn save_fn) {
    CheckpointManager::SaveRequest request;
    request.number = number;
    request.save_fn = std::move(save_fn);
    return manager.save(request);
  }

  /// Nothing that a save needed for itself is left.
  void expect_no_temporary_files() const {
    EXPECT_FALSE(names().contains(".chieftemp"));
    EXPECT_EQ(names_in(temporary.path()), Names{"run"});
  }

  /// The events of the given kinds, in order.
  [[nodiscard]] std::vector<std::string> events(const Names& kinds) const {
    MPI_Barrier(MPI_COMM_WORLD);
    std::vector<std::string> found;
    for (const auto& event : events_of_run(directory)) {
      if (const auto kind = event.at("event").get<std::string>(); kinds.contains(kind)) {
        found.push_back(kind);
      }
    }
    return found;
  }
};

/// Rank 0 gets each committed file, also one of the background. What the function throws costs no checkpoint.
TEST_F(SaveTest, AfterCommitIsCalledOnRankZeroAndItsErrorLosesNothing) {
  std::vector<std::string> called;
  const auto thread = std::this_thread::get_id();
  CheckpointManager manager = open({.max_to_keep = 2, .after_commit = [&](const fs::path& file) {
                                      EXPECT_EQ(std::this_thread::get_id(), thread);
                                      EXPECT_TRUE(fs::exists(file));
                                      called.push_back(file.filename().string());
                                      if (called.size() == 1) {
                                        throw std::runtime_error("no network");
                                      }
                                      if (called.size() == 2) {
                                        throw 42;
                                      }
                                    }});
  save_each(manager, {1, 2});
  state.set(3);
  CheckpointManager::SaveRequest request;
  request.number = 3;
  manager.save_in_background(request);
  EXPECT_LE(called.size(), 2U) << "it is committed at a later call";
  manager.finish_background_save();
  EXPECT_EQ(called, (world_rank() == 0 ? std::vector<std::string>{"ckpt-1.h5", "ckpt-2.h5", "ckpt-3.h5"}
                                       : std::vector<std::string>{}));
  EXPECT_EQ(names(), (Names{"ckpt-2.h5", "ckpt-3.h5"}));
  state.set(99);
  manager.restore_or_initialize();
  expect_state(3);
}

TEST_F(SaveTest, APreemptionDoesNotWaitForFilesToBeRemoved) {
  CheckpointManager manager = open({.max_to_keep = 2, .recycle = false});
  save_each(manager, {1, 2});
  state.set(3);
  SaveReason preemption;
  preemption.kind = SaveReason::Kind::preemption;
  manager.save(3, preemption);
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5", "ckpt-3.h5"}));
  save_each(manager, {4});
  EXPECT_EQ(names(), (Names{"ckpt-3.h5", "ckpt-4.h5"}));
}

TEST_F(SaveTest, KeepsOnePerSpan) {
  CheckpointManager manager = open({.max_to_keep = 2, .keep_every = std::chrono::hours(1)});
  save_each(manager, {1, 2, 3, 4, 5});
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-4.h5", "ckpt-5.h5"}));
}

TEST_F(SaveTest, ACheckpointOfTheSameNumberIsReplaced) {
  CheckpointManager manager = open();
  state.set(1);
  manager.save(5);
  state.set(2);
  manager.save(5);
  state.set(99);
  manager.restore_or_initialize();
  expect_state(2);
  EXPECT_EQ(names(), Names{"ckpt-5.h5"});
}

TEST_F(SaveTest, SaveFunctionGetsItsDirectoryAndArguments) {
  CheckpointManager manager = open();
  const std::vector<std::any> args{std::any(7), std::any(std::string("x"))};
  CheckpointManager::SaveRequest request;
  request.number = 4;
  request.save_fn_args = args;
  int calls = 0;
  request.save_fn = [&](const SaveFnContext& context) {
    ++calls;
    EXPECT_EQ(context.number, 4U);
    EXPECT_EQ(context.is_chief, world_rank() == 0);
    EXPECT_TRUE(fs::is_directory(context.write_directory));
    EXPECT_TRUE(fs::is_empty(context.write_directory));
    if (context.is_chief) {
      EXPECT_EQ(context.write_directory.parent_path(), directory / ".chieftemp");
    } else {
      EXPECT_EQ(context.write_directory, temporary / ("workertemp_" + std::to_string(world_rank())) / "run");
    }
    ASSERT_EQ(context.args.size(), 2U);
    EXPECT_EQ(std::any_cast<int>(context.args[0]), 7);
    EXPECT_EQ(std::any_cast<std::string>(context.args[1]), "x");
  };
  manager.save(request);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(names(), Names{"ckpt-4.h5"});  // nothing was written, so no files directory
  expect_no_temporary_files();
}

TEST_F(SaveTest, TheFilesOfRank0AreCommitted) {
  CheckpointManager manager = open();
  save_with(manager, 4, writes("by rank " + std::to_string(world_rank())));
  EXPECT_EQ(names(), (Names{"ckpt-4.files", "ckpt-4.h5"}));
  EXPECT_EQ(read_text(directory / "ckpt-4.files/sub/note.txt"), "by rank 0");
  EXPECT_EQ(manager.latest()->files_directory, directory / "ckpt-4.files");
  expect_no_temporary_files();
}

TEST_F(SaveTest, FilesAreReplacedWithTheirCheckpoint) {
  CheckpointManager manager = open();
  save_with(manager, 4, writes("old"));
  save_with(manager, 4, writes("new"));
  EXPECT_EQ(read_text(directory / "ckpt-4.files/sub/note.txt"), "new");
  manager.save(4);
  EXPECT_EQ(names(), Names{"ckpt-4.h5"});
  EXPECT_FALSE(manager.latest()->files_directory.has_value());
}

TEST_F(SaveTest, FilesAreQuarantinedWithTheirCheckpoint) {
  CheckpointManager manager = open();
  manager.save(3);
  save_with(manager, 4, writes("x"));
  on_rank_0([&] { fs::resize_file(directory / "ckpt-4.h5", 100); });
  EXPECT_EQ(manager.restore_or_initialize()->number, 3U);
  EXPECT_EQ(names(), (Names{"ckpt-3.h5", "ckpt-4.files.corrupt", "ckpt-4.h5.corrupt"}));
}

/// Fails the save on one rank, the parameter counted from the end.
class FailingSaveFn : public SaveTest, public testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Manager, FailingSaveFn, testing::Values(0, 1, 2));

TEST_P(FailingSaveFn, FailsOnAllRanksAndHarmsNothing) {
  REPRIEVE_NEEDS_RANKS(GetParam() + 1);
  const int failing = world_size() - 1 - GetParam();
  CheckpointManager manager = open();
  save_with(manager, 1, writes("first"));
  state.set(99);
  const SeenError error = same_error_on_all_ranks([&] {
    save_with(manager, 2, [&](const SaveFnContext& context) {
      write_text(context.write_directory / "half", "x");
      if (world_rank() == failing) {
        throw std::runtime_error("quota of the license server");
      }
    });
  });
  EXPECT_EQ(error.code, ErrorCode::cluster);
  EXPECT_EQ(error.origin_rank, failing);
  EXPECT_THAT(error.message, HasSubstr("quota of the license server"));
  EXPECT_EQ(names(), (Names{"ckpt-1.files", "ckpt-1.h5"}));
  expect_no_temporary_files();

  manager.restore_or_initialize();
  expect_state(1);
  save_with(manager, 2, writes("second"));  // still usable
  EXPECT_EQ(manager.latest()->number, 2U);
}

TEST_F(SaveTest, CodesOfStorageErrorsFromASaveFunctionAreKept) {
  CheckpointManager manager = open();
  const SeenError error = same_error_on_all_ranks(
      [&] { save_with(manager, 1, [](const SaveFnContext&) { throw StorageError(ErrorCode::no_space, "full"); }); });
  EXPECT_EQ(error.code, ErrorCode::no_space);
  EXPECT_EQ(error.origin_rank, 0);  // the lowest of those that failed
}

TEST_F(SaveTest, DifferentNumbersAreAnErrorOnAllRanks) {
  REPRIEVE_NEEDS_RANKS(2);
  CheckpointManager manager = open();
  EXPECT_THAT(same_error_on_all_ranks([&] { manager.save(world_rank() == world_size() - 1 ? 8 : 7); }),
              is_error(ErrorCode::usage, "checkpoint 8 while rank 0 is saving checkpoint 7"));
  EXPECT_THAT(same_error_on_all_ranks([&] { world_rank() == 0 ? manager.save() : manager.save(5); }),
              is_error(ErrorCode::usage, "saves checkpoint 5 while rank 0 is saving the next checkpoint"));
  EXPECT_EQ(names(), Names{});
  manager.save(9);
  EXPECT_EQ(names(), Names{"ckpt-9.h5"});
}

TEST_F(SaveTest, ADirectoryInTheWayIsAClearError) {
  CheckpointManager manager = open();
  manager.save(4);
  on_rank_0([&] { fs::create_directory(directory / "ckpt-5.h5"); });
  EXPECT_THAT(same_error_on_all_ranks([&] { manager.save(5); }),
              is_error(ErrorCode::io, "ckpt-5.h5 exists and is not a file; move it away"));
  EXPECT_EQ(names(), (Names{"ckpt-4.h5", "ckpt-5.h5"}));
  // What has the name of a checkpoint and cannot be judged is not passed over.
  EXPECT_EQ(same_error_on_all_ranks([&] { (void)manager.restore_or_initialize(); }).code, ErrorCode::io);
  on_rank_0([&] { fs::remove(directory / "ckpt-5.h5"); });
  EXPECT_EQ(manager.restore_or_initialize()->number, 4U);
}

TEST_F(SaveTest, ADirectoryThatVanishesIsAClearError) {
  CheckpointManager manager = open();
  manager.save(4);
  on_rank_0([&] { fs::remove_all(directory); });
  EXPECT_THAT(same_error_on_all_ranks([&] { manager.save(5); }),
              is_error(ErrorCode::io, directory.string() + " was removed or replaced while in use"));
  EXPECT_FALSE(fs::exists(directory));
  EXPECT_EQ(same_error_on_all_ranks([&] { (void)manager.checkpoints(); }).code, ErrorCode::io);
}

TEST_F(SaveTest, AnotherRunThatHasTakenOverIsLeftAlone) {
  CheckpointManager manager = open();
  on_rank_0([&] {
    write_text(directory / ".reprieve.lock", "another run");
    write_text(directory / ".chieftemp/of_the_other_run", "x");
  });
  EXPECT_EQ(same_error_on_all_ranks([&] { manager.save(5); }).code, ErrorCode::locked);
  EXPECT_TRUE(fs::exists(directory / ".chieftemp/of_the_other_run"));
  EXPECT_FALSE(fs::exists(directory / "ckpt-5.h5"));
}

TEST_F(SaveTest, EventsTellTheStory) {
  {
    CheckpointManager manager = open({.max_to_keep = 2});
    save_each(manager, {1, 2, 3});
    same_error_on_all_ranks(
        [&] { save_with(manager, 4, [](const SaveFnContext&) { throw std::runtime_error("no"); }); });
    on_rank_0([&] { write_text(directory / "ckpt-3.h5", "corruption"); });
    manager.restore_or_initialize();
  }
  const Names kinds{"start", "save_started", "save_finished", "save_failed", "passed_over", "restore", "retired"};
  EXPECT_THAT(events(kinds),
              ElementsAre("start", "save_started", "save_finished", "save_started", "save_finished", "save_started",
                          "save_finished", "retired", "save_started", "save_failed", "passed_over", "restore"));
}

TEST_F(SaveTest, TheEventLogCanBeSwitchedOff) {
  CheckpointManager manager = open({.event_log = false});
  manager.save(1);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(fs::exists(directory / "events.jsonl"));
}

TEST_F(SaveTest, LeftOversOfDeadRunsAreRemovedAtStart) {
  { open().save(1); }
  on_rank_0([&] {
    write_text(directory / ".chieftemp/ckpt-2.1700000000000000.h5", "half");
    write_text(directory / ".chieftemp/ckpt-2.1700000000000000.files/a", "half");
    write_text(directory / "ckpt-0.files/a", "its checkpoint was retired");
    write_text(directory / "ckpt-0.h5.pinned", "the next checkpoint of this number is another one");
    write_text(directory / "ckpt-1.h5.pinned", "");
    write_text(directory / "other-0.files/a", "not ours");
    write_text(temporary / "workertemp_3/run/a", "scratch");
    write_text(temporary / "workertemp_4/run/a", "scratch");
    write_text(temporary / "workertemp_4/other/a", "of another directory");
    write_text(temporary / "workertemp_x/run/a", "not ours");
  });
  const CheckpointManager manager = open();
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-1.h5.pinned", "other-0.files"}));
  EXPECT_EQ(names_in(temporary.path()), (Names{"run", "workertemp_4", "workertemp_x"}));
  EXPECT_EQ(names_in(temporary / "workertemp_4"), Names{"other"});
}

/// Only the value of rank 0 is saved: without a word, all ranks would continue with it.
class Replicated : public ManagerTest {
 protected:
  [[nodiscard]] std::string log_of_save(CheckpointManager& manager, std::uint64_t number) const {
    testing::internal::CaptureStderr();
    manager.save(number);
    return testing::internal::GetCapturedStderr();
  }

  static constexpr const char* kWarning = "'part' is registered as replicated, but it is not equal on all ranks";
  std::vector<double> part_{1, 2, 3};
};

TEST_F(Replicated, ThatIsNotEqualIsSaidOnce) {
  part_.back() += world_rank();
  Checkpoint checkpoint;
  checkpoint.add_replicated("again", part_[0]);
  checkpoint.add_replicated("part", part_);
  CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory);
  const bool is_expected = world_rank() == 0 && world_size() > 1;
  EXPECT_EQ(log_of_save(manager, 1).find(kWarning) != std::string::npos, is_expected);
  EXPECT_EQ(log_of_save(manager, 2).find(kWarning), std::string::npos);
}

TEST_F(Replicated, ThatIsEqualIsNotSaid) {
  Checkpoint checkpoint;
  checkpoint.add_replicated("part", part_);
  CheckpointManager manager(MPI_COMM_WORLD, checkpoint, directory);
  EXPECT_EQ(log_of_save(manager, 1).find("replicated"), std::string::npos);
}

/// The state between the commit and the move of the files (steps 4 and 5 of the protocol).
class CutShort : public SaveTest {
 protected:
  /// Moves the files of checkpoint 4 back to where they were staged, with an age in microseconds of the other's.
  void stage_files_again(std::int64_t older_us) {
    CheckpointManager manager = open();
    save_with(manager, 4, writes("new"));
    const auto time = manager.latest()->time.time_since_epoch() - std::chrono::microseconds(older_us);
    const auto time_us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
    on_rank_0([&] {
      fs::create_directory(directory / ".chieftemp");
      fs::rename(directory / "ckpt-4.files",
                 directory / ".chieftemp" / ("ckpt-4." + std::to_string(time_us) + ".files"));
      write_text(directory / "ckpt-4.files/of_the_replaced_checkpoint", "old");
    });
  }
};

TEST_F(CutShort, TheNextRunPutsTheFilesInPlace) {
  stage_files_again(0);
  CheckpointManager manager = open();
  EXPECT_EQ(names(), (Names{"ckpt-4.files", "ckpt-4.h5"}));
  EXPECT_EQ(names_in(directory / "ckpt-4.files"), Names{"sub"});
  EXPECT_EQ(read_text(directory / "ckpt-4.files/sub/note.txt"), "new");
}

TEST_F(CutShort, FilesOfASaveThatWasNotCommittedAreRemoved) {
  stage_files_again(1);
  CheckpointManager manager = open();
  EXPECT_EQ(names(), (Names{"ckpt-4.files", "ckpt-4.h5"}));
  EXPECT_EQ(names_in(directory / "ckpt-4.files"), Names{"of_the_replaced_checkpoint"});
}

// Saves in the background: what is saved, when it is a checkpoint, and what goes wrong in the thread.

/// While it lives, this process can map only so many bytes more.
class LimitedMemory {
 public:
  explicit LimitedMemory(std::size_t bytes) {
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages;
    EXPECT_EQ(::getrlimit(RLIMIT_AS, &before_), 0);
    rlimit limited = before_;
    limited.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  }
  ~LimitedMemory() { EXPECT_EQ(::setrlimit(RLIMIT_AS, &before_), 0); }
  LimitedMemory(const LimitedMemory&) = delete;
  LimitedMemory& operator=(const LimitedMemory&) = delete;

 private:
  rlimit before_{};
};

class BackgroundSave : public ManagerTest {
 protected:
  /// Begins to save the state of seed = number, which is another one as soon as this returns.
  void begin(CheckpointManager& manager, int number) {
    state.set(number);
    CheckpointManager::SaveRequest request;
    request.number = static_cast<std::uint64_t>(number);
    manager.save_in_background(request);
    state.set(number + 50);
  }

  void expect_restored(int seed) {
    CheckpointManager manager = open();
    const auto info = manager.restore_or_initialize();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->number, static_cast<std::uint64_t>(seed));
    expect_state(seed);
  }
};

TEST_F(BackgroundSave, SavesTheStateOfTheMomentInWhichItBegan) {
  {
    CheckpointManager manager = open();
    begin(manager, 4);
    const auto report = manager.finish_background_save();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->number, 4U);
    EXPECT_GT(report->bytes, 0U);
    EXPECT_GE(report->seconds, report->blocked_seconds);
    EXPECT_GT(report->blocked_seconds, 0.0);
  }
  expect_restored(4);
}

TEST_F(BackgroundSave, IsNoCheckpointBeforeItIsFinished) {
  CheckpointManager manager = open();
  EXPECT_FALSE(manager.background_save_pending());
  EXPECT_TRUE(manager.background_save_written());
  begin(manager, 4);
  EXPECT_TRUE(manager.background_save_pending());
  EXPECT_FALSE(manager.latest());
  manager.finish_background_save();
  EXPECT_FALSE(manager.background_save_pending());
  EXPECT_TRUE(manager.background_save_written());
  EXPECT_EQ(manager.latest()->number, 4U);
  EXPECT_FALSE(manager.finish_background_save());
}

TEST_F(BackgroundSave, IsFinishedByTheNextSave) {
  {
    CheckpointManager manager = open();
    begin(manager, 4);
    begin(manager, 5);
    state.set(6);
    manager.save(6);
    EXPECT_FALSE(manager.background_save_pending());
  }
  EXPECT_EQ(names(), (Names{"ckpt-4.h5", "ckpt-5.h5", "ckpt-6.h5"}));
  expect_restored(6);
}

TEST_F(BackgroundSave, IsFinishedByTheEndOfTheManager) {
  {
    CheckpointManager manager = open();
    begin(manager, 4);
  }
  expect_restored(4);
}

TEST_F(BackgroundSave, IsFinishedByARestore) {
  CheckpointManager manager = open();
  begin(manager, 4);
  EXPECT_EQ(manager.restore_or_initialize()->number, 4U);
  expect_state(4);
}

TEST_F(BackgroundSave, IsLostIfTheManagerIsLeftByAnException) {
  try {
    CheckpointManager manager = open();
    begin(manager, 4);
    throw std::runtime_error("on every rank");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(open().latest());
  EXPECT_EQ(names(), Names{});
}

TEST_F(BackgroundSave, IsAnOrdinarySaveWithoutRoomForACopy) {
#ifdef REPRIEVE_SANITIZED
  GTEST_SKIP() << "the sanitizer ends a process that has no memory left";
#endif
  std::vector<double> large(std::size_t{1} << 23, 1.0);  // 64 MiB
  state.checkpoint.add_per_rank("large", large);
  {
    CheckpointManager manager = open();
    {
      const LimitedMemory limit(std::size_t{16} << 20U);
      begin(manager, 4);
    }
    EXPECT_FALSE(manager.background_save_pending());
    EXPECT_EQ(manager.latest()->number, 4U);
  }
  expect_restored(4);
}

TEST_F(BackgroundSave, AnErrorInAThreadReachesAllRanksAndCostsNothingElse) {
  if (world_size() == 1) {
    GTEST_SKIP() << "the only rank would see the limit before it begins to write";
  }
  std::vector<double> large(std::size_t{1} << 18, 1.0);  // 2 MiB on each rank
  state.checkpoint.add_per_rank("large", large);
  CheckpointManager manager = open();
  begin(manager, 4);
  manager.finish_background_save();
  SeenError seen;
  {
    const SmallFilesOnTheLastRank limit(1 << 20);
    begin(manager, 5);
    seen = same_error_on_all_ranks([&] { manager.finish_background_save(); });
  }
  EXPECT_EQ(seen.origin_rank, world_size() - 1);
  EXPECT_THAT(seen.message, HasSubstr("ckpt-5"));
  EXPECT_EQ(names(), Names{"ckpt-4.h5"});
  begin(manager, 6);
  manager.finish_background_save();
  EXPECT_EQ(names(), (Names{"ckpt-4.h5", "ckpt-6.h5"}));
}

TEST_F(BackgroundSave, NeedsTheDirectWriter) {
  CheckpointManager manager = open({.writer = WriterKind::mpio});
  const SeenError seen = same_error_on_all_ranks([&] { begin(manager, 4); });
  EXPECT_EQ(seen.code, ErrorCode::usage);
  const SeenError config =
      same_error_on_all_ranks([&] { static_cast<void>(open({.writer = WriterKind::mpio, .background = true})); });
  EXPECT_EQ(config.code, ErrorCode::config);
}

// The first save after a restart is often the last before the end of a job: with thousands of variables its file is
// laid out at the restore.

class LayoutAhead : public ManagerTest {
 protected:
  static constexpr std::size_t kMany = 300;

  /// As many variables as are laid out ahead.
  void register_many(int seed) {
    for (std::size_t i = 0; i < kMany; ++i) {
      many_.emplace_back(1 + i % 3, seed + static_cast<int>(i) + 1000 * world_rank());
    }
    for (std::size_t i = 0; i < kMany; ++i) {
      state.checkpoint.add_per_rank("many/" + std::to_string(i), many_[i]);
    }
  }

  static bool is_laid_out(const CheckpointManager& manager) { return manager.impl().layout.content.has_value(); }

  std::vector<std::vector<int>> many_;
};

TEST_F(LayoutAhead, FewVariablesTakeNoTime) {
  run_with_saves({1});
  CheckpointManager manager = open();
  manager.restore_or_initialize();
  EXPECT_FALSE(is_laid_out(manager));
}

/// What the functions of a program tell of its state may not be there yet.
TEST_F(LayoutAhead, OfANewDirectoryThereIsNone) {
  register_many(1);
  CheckpointManager manager = open();
  manager.restore_or_initialize();
  EXPECT_FALSE(is_laid_out(manager));
  save_each(manager, {1});
  on_rank_0([&] { EXPECT_TRUE(storage::verify_file(directory / "ckpt-1.h5").empty()); });
}

TEST_F(LayoutAhead, OfARestoredFile) {
  register_many(1);
  run_with_saves({1});
  CheckpointManager manager = open();
  state.set(99);
  ASSERT_TRUE(manager.restore_or_initialize().has_value());
  EXPECT_TRUE(is_laid_out(manager));
  expect_state(1);
  for (auto& values : many_) {
    std::fill(values.begin(), values.end(), 7 + world_rank());
  }
  save_each(manager, {2});
  many_.front().front() = 0;
  ASSERT_TRUE(manager.restore_or_initialize().has_value());
  EXPECT_THAT(many_, testing::Each(testing::Each(7 + world_rank())));
  on_rank_0([&] { EXPECT_TRUE(storage::verify_file(directory / "ckpt-2.h5").empty()); });
}

}  // namespace
}  // namespace reprieve::test
