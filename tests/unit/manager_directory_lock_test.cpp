// SPDX-License-Identifier: BSD-3-Clause
// The lock against a second living run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "manager/directory_lock.hpp"
#include "reprieve/error.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

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
  const std::filesystem::path file = directory / ".reprieve.lock";
};

TEST_F(DirectoryLockTest, IsFreeAgainAfterTheHolder) {
  { const DirectoryLock lock(file, LockHolder::self("here", 1), 0ms); }
  EXPECT_EQ(message_of_failing(0ms), "");
}

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
  int ready[2] = {};
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const DirectoryLock lock(file, LockHolder::self("here", 1), 10s);
    if (write(ready[1], "x", 1) != 1) {
      _exit(1);
    }
    for (;;) {
      pause();
    }
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(message_of_failing(0ms), HasSubstr("process " + std::to_string(child)));

  std::thread killer([child] {
    std::this_thread::sleep_for(200ms);
    kill(child, SIGKILL);
  });
  EXPECT_EQ(message_of_failing(50s), "");
  killer.join();
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(ready[0]);
  close(ready[1]);
}

TEST_F(DirectoryLockTest, AForkedChildDoesNotKeepIt) {
  int end[2] = {};
  ASSERT_EQ(pipe(end), 0);
  pid_t child = -1;
  {
    const DirectoryLock lock(file, LockHolder::self("here", 1), 0ms);
    child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {  // shares the descriptor until the test lets it go
      char byte = 0;
      close(end[1]);
      _exit(read(end[0], &byte, 1) == 0 ? 0 : 1);
    }
  }
  EXPECT_EQ(message_of_failing(0ms), "");
  close(end[1]);
  close(end[0]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(DirectoryLockTest, MarkTellsRunsApart) {
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
TEST_F(DirectoryLockTest, MakesAFileAnewThatWasRemoved) {
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
  struct stat status = {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

/// Nobody ever reads from it: an open that waits would wait for ever.
TEST_F(DirectoryLockTest, DoesNotWaitForAFifo) {
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_THROW(DirectoryLock(file, LockHolder::self("here", 1), 0ms), StorageError);
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
  try {
    lock.check_held();
    FAIL() << "no error";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.code(), ErrorCode::locked);
    EXPECT_THAT(error.what(), HasSubstr("somebody else"));
  }
}

TEST_F(DirectoryLockTest, DoesNotFollowSymbolicLinks) {
  const std::filesystem::path victim = directory / "victim";
  std::ofstream(victim) << "content";
  std::filesystem::create_symlink(victim, file);
  EXPECT_THROW(DirectoryLock(file, LockHolder::self("here", 1), 0ms), StorageError);
  std::string content;
  std::ifstream(victim) >> content;
  EXPECT_EQ(content, "content");
}

TEST_F(DirectoryLockTest, MissingDirectoryIsAnError) {
  EXPECT_THROW(DirectoryLock(directory / "none" / "lock", LockHolder::self("here", 1), 0ms), StorageError);
}

}  // namespace
}  // namespace reprieve::manager
