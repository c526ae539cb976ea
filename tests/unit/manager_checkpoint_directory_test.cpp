// SPDX-License-Identifier: BSD-3-Clause
// Rank 0's view of a checkpoint directory, where it needs no valid checkpoint.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "manager/checkpoint_directory.hpp"
#include "manager/directory_lock.hpp"
#include "reprieve/error.hpp"
#include "support/child.hpp"
#include "support/process.hpp"

namespace reprieve::manager {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::uint64_t>;

class CheckpointDirectoryTest : public testing::Test {
 protected:
  CheckpointDirectoryTest() { fs::create_directory(run); }

  static void touch(const fs::path& file) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "x";
  }

  const test::TemporaryDirectory temporary;
  const fs::path run = temporary / "run";
  CheckpointDirectory directory{run, "ckpt", true};
};

TEST_F(CheckpointDirectoryTest, ListsFilesAndLinksToFilesByNumber) {
  for (const char* name : {"ckpt-10.h5", "ckpt-9.h5", "ckpt-010.h5", "other-1.h5", "ckpt-3.h5.corrupt"}) {
    touch(run / name);
  }
  fs::create_directory(run / "ckpt-5.h5");
  fs::create_symlink("nowhere", run / "ckpt-6.h5");
  fs::create_symlink("ckpt-9.h5", run / "ckpt-7.h5");
  EXPECT_EQ(directory.numbers(), (Numbers{7, 9, 10}));
}

TEST_F(CheckpointDirectoryTest, AMissingDirectoryIsAnError) {
  fs::remove(run);
  EXPECT_THROW(static_cast<void>(directory.numbers()), StorageError);
}

TEST_F(CheckpointDirectoryTest, OfCorruptFilesNothingIsKnownAndTheyAreNotRetired) {
  for (std::uint64_t number = 1; number <= 5; ++number) {
    touch(directory.file(number));
  }
  EXPECT_FALSE(directory.info(1).has_value());
  EXPECT_FALSE(directory.info(1).has_value()) << "asked for once more";
  EXPECT_FALSE(directory.info(6).has_value()) << "it is not there";
  EXPECT_TRUE(directory.retire({1, std::chrono::seconds(0)}, 5, "", {.recycle = false, .remove = true}).empty());
  EXPECT_EQ(directory.numbers().size(), 5U);
}

TEST_F(CheckpointDirectoryTest, AFreeNumberIsAboveAllThatAreThere) {
  EXPECT_EQ(directory.free_number(0, false), 0U);
  EXPECT_EQ(directory.free_number(7, false), 7U);
  for (const char* name :
       {"ckpt-20.h5", "ckpt-30.h5.corrupt", "ckpt-31.h5.corrupt.2", "other-99.h5", "ckpt-99.h5.old"}) {
    touch(run / name);
  }
  EXPECT_EQ(directory.free_number(20, false), 32U);
  EXPECT_EQ(directory.free_number(31, true), 32U) << "it was quarantined, so there is nothing to be replaced";
  EXPECT_EQ(directory.free_number(40, false), 40U);
  touch(directory.file(40));
  EXPECT_EQ(directory.free_number(40, false), 41U);
  EXPECT_EQ(directory.free_number(40, true), 40U);
  touch(directory.file(18'446'744'073'709'551'615U));
  EXPECT_THROW(static_cast<void>(directory.free_number(40, true)), UsageError);
}

TEST_F(CheckpointDirectoryTest, APinnedCheckpointIsNotReplacedAndKeepsItsPinAside) {
  touch(directory.file(5));
  touch(run / "ckpt-5.h5.pinned");
  EXPECT_TRUE(directory.is_pinned(5));
  EXPECT_EQ(directory.free_number(5, true), 6U);
  EXPECT_EQ(directory.quarantine_as(5, ".rewound"), run / "ckpt-5.h5.rewound");
  EXPECT_FALSE(directory.is_pinned(5)) << "the next checkpoint of this number is another one";
  EXPECT_TRUE(fs::exists(run / "ckpt-5.h5.pinned.rewound"));
}

TEST_F(CheckpointDirectoryTest, RewoundCheckpointsAreLeftAlone) {
  touch(run / "ckpt-5.h5.rewound");
  touch(run / "ckpt-5.files.rewound/notes");
  EXPECT_TRUE(directory.numbers().empty());
  EXPECT_EQ(directory.free_number(3, false), 3U);
  directory.remove_left_overs();
  directory.check_nothing_is_quarantined();
  EXPECT_TRUE(fs::exists(run / "ckpt-5.h5.rewound"));
  EXPECT_TRUE(fs::exists(run / "ckpt-5.files.rewound/notes"));
  const auto name = parse_quarantined_name("ckpt-5.h5.rewound.3", kRewoundSuffix);
  ASSERT_TRUE(name);
  EXPECT_EQ(name->count, 3U);
  EXPECT_FALSE(parse_quarantined_name("ckpt-5.h5.rewound"));
}

TEST_F(CheckpointDirectoryTest, StagingIsEmptyAndThisUsersAlone) {
  touch(directory.staging() / "left behind");
  directory.prepare_staging(1);
  EXPECT_TRUE(fs::is_empty(directory.staging()));
  EXPECT_EQ(fs::status(directory.staging()).permissions(), fs::perms::owner_all);
}

TEST_F(CheckpointDirectoryTest, ALinkInPlaceOfTheStagingDirectoryIsNotFollowed) {
  touch(temporary / "victim/ckpt-1.5.files/content");
  fs::create_directory_symlink(temporary / "victim", directory.staging());
  directory.prepare_staging(1);
  EXPECT_FALSE(fs::is_symlink(directory.staging()));
  EXPECT_TRUE(fs::exists(temporary / "victim/ckpt-1.5.files/content"));
}

/// A program with another prefix may have died between its commit and the rename of its files.
TEST_F(CheckpointDirectoryTest, WhatAnotherPrefixHasStagedStays) {
  const fs::path files = directory.staging() / "other-1.5.files";
  touch(files / "note");
  touch(directory.staging() / "other-2.6.h5");
  touch(directory.staging() / "ckpt-2.6.h5");
  directory.prepare_staging(1);
  EXPECT_TRUE(fs::exists(files / "note"));
  EXPECT_FALSE(fs::exists(directory.staging() / "ckpt-2.6.h5"));
  directory.remove_left_overs();
  directory.release_reserve();
  EXPECT_TRUE(fs::exists(files / "note"));
  CheckpointDirectory(run, "other", true).remove_left_overs();
  EXPECT_FALSE(fs::exists(directory.staging()));
}

TEST_F(CheckpointDirectoryTest, NothingMayStandInTheWayOfACheckpoint) {
  fs::create_directory(directory.file(1));
  EXPECT_THROW(directory.prepare_staging(1), StorageError);
  EXPECT_NO_THROW(directory.prepare_staging(2));
}

TEST_F(CheckpointDirectoryTest, CommitRenames) {
  directory.prepare_staging(1);
  touch(directory.staged_file({1, 5}));
  touch(directory.staged_files_directory({1, 5}) / "note");
  directory.commit({1, 5}, true);
  EXPECT_TRUE(fs::exists(directory.file(1)));
  EXPECT_TRUE(fs::exists(directory.files_directory(1) / "note"));
  EXPECT_TRUE(fs::is_empty(directory.staging()));
}

TEST_F(CheckpointDirectoryTest, ACommitWithoutItsFileChangesNothing) {
  directory.prepare_staging(1);
  touch(directory.files_directory(1) / "old");
  EXPECT_THROW(directory.commit({1, 5}, false), StorageError);
  EXPECT_TRUE(fs::exists(directory.files_directory(1) / "old"));
}

TEST_F(CheckpointDirectoryTest, RemovesACheckpointWithItsFiles) {
  touch(directory.file(1));
  touch(directory.files_directory(1) / "note");
  touch(directory.file(2));
  directory.remove(1);
  EXPECT_EQ(directory.numbers(), Numbers{2});
  EXPECT_FALSE(fs::exists(directory.files_directory(1)));
}

// The lock against a second living run.

using namespace std::chrono_literals;
using testing::HasSubstr;

class DirectoryLockTest : public testing::Test {
 protected:
  [[nodiscard]] std::string message_of_failing(std::chrono::milliseconds timeout) const {
    try {
      const DirectoryLock lock(file, LockHolder::self("here", 1), timeout);
      return "";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.code(), ErrorCode::locked);
      return error.what();
    }
  }

  const reprieve::test::TemporaryDirectory directory;
  static constexpr fs::perms kOwnFile = fs::perms::owner_read | fs::perms::owner_write;
  const std::filesystem::path file = directory / ".reprieve.lock";
};

TEST_F(DirectoryLockTest, SecondHolderGetsAClearError) {
  const DirectoryLock lock(file, LockHolder::self("node7", 16), 0ms);
  const std::string message = message_of_failing(20ms);
  EXPECT_THAT(message, HasSubstr(directory.path().string()));
  EXPECT_THAT(message, HasSubstr("process " + std::to_string(getpid()) + " on node7"));
  EXPECT_THAT(message, HasSubstr("16 ranks"));
  EXPECT_THAT(message, HasSubstr("lock_timeout"));
}

TEST_F(DirectoryLockTest, HolderWithoutAReadableNameIsStillAHolder) {
  const DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
  for (const char* content : {"", "{\"pid\":", "[1]", "{\"pid\":\"x\"}"}) {
    std::ofstream(file, std::ios::trunc) << content;
    EXPECT_THAT(message_of_failing(0ms), HasSubstr("another run"));
  }
}

TEST_F(DirectoryLockTest, WaitsForAnotherProcessThatDies) {
  const test::Child child([&] {
    const DirectoryLock lock(file, LockHolder::self("here", 1), 10s);
    ::pause();
  });
  ASSERT_TRUE(test::wait_until([&] { return fs::exists(file) && !read_lock_mark(file).empty(); }, 60s));
  EXPECT_THAT(message_of_failing(0ms), HasSubstr("process " + std::to_string(child.pid())));
  std::thread killer([&] {
    std::this_thread::sleep_for(200ms);
    ::kill(child.pid(), SIGKILL);
  });
  EXPECT_EQ(message_of_failing(50s), "");
  killer.join();
}

TEST_F(DirectoryLockTest, AForkedChildDoesNotKeepIt) {
  std::optional<test::Child> child;
  {
    const DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
    child.emplace([] { ::pause(); });  // shares the descriptor
  }
  EXPECT_EQ(message_of_failing(0ms), "");
}

TEST_F(DirectoryLockTest, MarkDistinguishesRuns) {
  std::string first;
  {
    DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
    first = lock.mark();
    EXPECT_EQ(read_lock_mark(file), first);
    EXPECT_NO_THROW(lock.check_held());
  }
  const DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
  EXPECT_NE(lock.mark(), first);
  EXPECT_EQ(read_lock_mark(file), lock.mark());
}

/// A purge of old files takes the lock file of a long run as well.
TEST_F(DirectoryLockTest, MakesAFileAgainThatWasRemoved) {
  DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
  std::filesystem::remove(file);
  EXPECT_NO_THROW(lock.check_held());
  EXPECT_EQ(read_lock_mark(file), lock.mark());
  EXPECT_THAT(message_of_failing(0ms), HasSubstr("in use by"));  // and is locked
}

TEST_F(DirectoryLockTest, NoticesThatTheFileWasReplaced) {
  DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
  std::filesystem::remove(file);
  std::ofstream(file) << lock.mark();  // the same text in another file
  EXPECT_THROW(lock.check_held(), StorageError);
}

TEST_F(DirectoryLockTest, NoticesThatTheDirectoryWasReplaced) {
  const std::filesystem::path place = directory / "place";
  std::filesystem::create_directory(place);
  DirectoryLock lock(place / "lock", LockHolder::self("here", 1), 0ms);
  std::filesystem::rename(place, directory / "moved");
  std::filesystem::create_directory(place);
  EXPECT_THROW(lock.check_held(), StorageError);
}

/// Who may only read the directory must not be able to take its lock.
TEST_F(DirectoryLockTest, CannotBeOpenedByOthersWhoMayReadTheDirectory) {
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  std::ofstream(file) << "";
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);  // as older versions made it
  const DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
  EXPECT_EQ(fs::status(file).permissions(), kOwnFile);
}

/// Where locks do not reach other nodes, a tool there gets it beside a run that lives: that must be able to save then.
TEST_F(DirectoryLockTest, LeavesTheMarkOfARunForALook) {
  std::string content;
  {
    DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
    content = lock.mark();
  }
  {
    const DirectoryLock look(file, LockHolder::self("elsewhere", 1), 0ms, DirectoryLock::Mark::kept);
    EXPECT_NE(message_of_failing(0ms), "") << "it is held meanwhile";
  }
  EXPECT_EQ(read_lock_mark(file), content);
}

TEST_F(DirectoryLockTest, NoticesThatAnotherRunHasTakenOver) {
  DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
  std::ofstream(file, std::ios::trunc) << "somebody else";
  EXPECT_THAT([&] { lock.check_held(); }, testing::Throws<StorageError>(testing::AllOf(
                                              testing::Property(&StorageError::code, ErrorCode::locked),
                                              testing::Property(&StorageError::what, HasSubstr("somebody else")))));
}

/// Nobody ever reads from the fifo: an open that waits would wait for ever.
TEST_F(DirectoryLockTest, NeedsARegularFileThatIsNoLink) {
  const auto expect_refused = [](const fs::path& lock) {
    EXPECT_THROW(DirectoryLock(lock, LockHolder::self("here", 1), 0ms), StorageError) << lock;
  };
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  expect_refused(file);
  std::ofstream(directory / "victim") << "content";
  fs::create_symlink(directory / "victim", directory / "link");
  expect_refused(directory / "link");
  EXPECT_EQ(test::read_text(directory / "victim"), "content");
  expect_refused(directory / "none" / "lock");
}

}  // namespace
}  // namespace reprieve::manager
