// SPDX-License-Identifier: BSD-3-Clause
// What other users of the machine can do with a run: read nothing, unless its user lets them; put no link into its way;
// start nothing by a name. apps/guide/security.md names what is promised; every claim there has a test here.

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>

#include "core/events.hpp"
#include "faults/field_test.hpp"
#include "manager/directory_lock.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

mode_t mode_of(const fs::path& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

/// Everything below a directory that somebody else than its user may use in some way.
std::vector<std::string> open_to_others(const fs::path& directory) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_symlink() && (mode_of(entry.path()) & 0077) != 0) {
      found.push_back(entry.path().string());
    }
  }
  return found;
}

class Rights : public FieldTest {
 protected:
  /// No right is taken away by the umask.
  Rights() : before_(::umask(0)) {}
  ~Rights() override { ::umask(before_); }

  void run(const Options& options = {"save_every=5", "keep=2"}) const {
    const auto job = start(2, 30, 0, options);
    EXPECT_EQ(job->wait(kLimit), 0) << job->err();
  }

  /// Of a directory with these rights, and with a group of its own if that is possible.
  void expect_warning(mode_t mode, const std::string& warning) const {
    fs::create_directory(checkpoints());
    ASSERT_EQ(::chown(checkpoints().c_str(), static_cast<uid_t>(-1), ::geteuid() == 0 ? 12345 : ::getegid()), 0);
    ASSERT_EQ(::chmod(checkpoints().c_str(), mode), 0);
    const auto job = start(1, 5, 0);
    EXPECT_EQ(job->wait(kLimit), 0);
    EXPECT_THAT(job->err(), HasSubstr(warning));
  }

 private:
  mode_t before_;
};

TEST_F(Rights, WhatARunMakesIsItsUsersAlone) {
  run();
  EXPECT_EQ(mode_of(checkpoints()), 0700);
  EXPECT_THAT(open_to_others(checkpoints()), testing::IsEmpty());
  EXPECT_GE(expect_sound_checkpoints(), 2);
}

/// While a save is under way, with a rank that stands still in it.
TEST_F(Rights, SoIsWhatItMakesForASave) {
  const auto job = start(2, 30, 0, {"save_every=5", "stop_in_save=10"});
  ASSERT_TRUE(wait_until([&] { return fs::exists(directory_ / "workertemp_1"); }, kLimit)) << job->err();
  ASSERT_TRUE(wait_until([&] { return fs::exists(checkpoints() / ".chieftemp"); }, kLimit)) << job->err();
  EXPECT_EQ(mode_of(directory_ / "workertemp_1"), 0700);
  EXPECT_THAT(open_to_others(directory_ / "workertemp_1"), testing::IsEmpty());
  EXPECT_THAT(open_to_others(checkpoints()), testing::IsEmpty());
}

TEST_F(Rights, AUserMayOpenTheDirectoryToAGroup) {
  fs::create_directory(checkpoints());
  ASSERT_EQ(::chmod(checkpoints().c_str(), 0750), 0);
  run();
  EXPECT_EQ(mode_of(checkpoints()), 0750);
  EXPECT_EQ(mode_of(checkpoints() / "ckpt-25.h5"), 0640);
  EXPECT_EQ(mode_of(checkpoints() / "events.jsonl"), 0640);
}

/// That of a project, whose members read the checkpoints of each other.
TEST_F(Rights, FilesHaveTheGroupThatTheDirectoryGives) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to give a directory to a group";
  }
  constexpr gid_t kProject = 12345;
  fs::create_directory(checkpoints());
  ASSERT_EQ(::chown(checkpoints().c_str(), static_cast<uid_t>(-1), kProject), 0);
  ASSERT_EQ(::chmod(checkpoints().c_str(), 02750), 0);
  run();
  for (const char* name : {"ckpt-25.h5", "events.jsonl"}) {
    struct stat status = {};
    ASSERT_EQ(::stat((checkpoints() / name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_gid, kProject) << name;
    EXPECT_EQ(status.st_mode & 0777U, 0640U) << name;
  }
}

/// A list of rights that the directory gives to what is made in it: its user and mask, and one more user who reads.
TEST_F(Rights, ListsOfRightsAreThoseThatTheDirectoryGives) {
  struct Entry {
    std::uint16_t tag, rights;
    std::uint32_t id;
  };
  struct {
    std::uint32_t version = 2;
    std::array<Entry, 5> entries{{{1, 7, ~0U}, {2, 5, 12345}, {4, 0, ~0U}, {0x10, 5, ~0U}, {0x20, 0, ~0U}}};
  } list;
  fs::create_directory(checkpoints());
  if (::setxattr(checkpoints().c_str(), "system.posix_acl_default", &list, sizeof list, 0) != 0) {
    GTEST_SKIP() << "this file system has no lists of rights";
  }
  ASSERT_EQ(::setxattr(checkpoints().c_str(), "system.posix_acl_access", &list, sizeof list, 0), 0);
  run();
  decltype(list) found;
  ASSERT_EQ(::getxattr((checkpoints() / "ckpt-25.h5").c_str(), "system.posix_acl_access", &found, sizeof found),
            static_cast<ssize_t>(sizeof found));
  EXPECT_EQ(found.entries[1].id, 12345U);
  EXPECT_EQ(found.entries[3].rights, 4) << "the mask lets readers read";
}

TEST_F(Rights, ADirectoryThatEverybodyMayWriteIsWarnedOf) {
  expect_warning(0777, "everybody may write in " + checkpoints().string());
}

TEST_F(Rights, ADirectoryThatAGroupMayWriteIsWarnedOf) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to give a directory to a group";
  }
  expect_warning(0770, "the group 12345 may write in " + checkpoints().string());
}

class PlantedLink : public FieldTest {
 protected:
  PlantedLink() {
    fs::create_directories(victim_);
    std::ofstream(victim_ / "file") << "precious";
  }
  void expect_untouched() const { EXPECT_EQ(read_text(victim_ / "file"), "precious"); }

  const fs::path victim_ = directory_ / "victim";
};

TEST_F(PlantedLink, IsNotFollowedByWhoWrites) {
  const fs::path link = directory_ / "link";
  fs::create_symlink(victim_ / "file", link);
  EXPECT_THROW(static_cast<void>(storage::PosixFile::open_to_write(link)), StorageError);
  EXPECT_THROW(static_cast<void>(storage::PosixFile::create(link)), StorageError);
  core::EventLog(link).write(events::Start{});
  EXPECT_THROW(manager::DirectoryLock(link, manager::LockHolder::self("here", 1), std::chrono::milliseconds(0)),
               StorageError);
  expect_untouched();
}

/// Names and metadata never reach a shell.
TEST_F(Rights, NamesAreNotCommands) {
  const fs::path evil = directory_ / "a;touch pwned;$(touch pwned)`touch pwned`'\"\n x";
  MpiCommand started = command(1, 10, 0, {"save_every=5"});
  started.arguments.at(1) = evil.string();
  Mpirun job(started);
  EXPECT_EQ(job.wait(kLimit), 0) << job.err();
  Process verified({.arguments = {program("reprieve"), "verify", evil.string()}, .directory = directory_.path()});
  EXPECT_EQ(verified.wait(kLimit), 0) << verified.err();
  Process listed({.arguments = {program("reprieve"), "ls", evil.string()}, .directory = directory_.path()});
  EXPECT_EQ(listed.wait(kLimit), 0) << listed.err();
  EXPECT_FALSE(fs::exists(directory_ / "pwned"));
}

}  // namespace
}  // namespace reprieve::test
