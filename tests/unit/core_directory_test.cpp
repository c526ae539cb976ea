// SPDX-License-Identifier: BSD-3-Clause
// A directory as a handle: what somebody else puts in the way of a name leads nowhere.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "core/directory.hpp"
#include "manager/directory_lock.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/posix_file.hpp"
#include "support/child.hpp"
#include "support/closed_descriptors.hpp"
#include "support/error_text.hpp"
#include "support/other_user.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::core {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

mode_t mode_of(const fs::path& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

class DirectoryTest : public ::testing::Test {
 protected:
  DirectoryTest() {
    fs::create_directories(place_ / "own");
    fs::create_directories(victim_ / "below");
    std::ofstream(victim_ / "thesis.txt") << "precious";
    std::ofstream(victim_ / "below" / "data") << "precious";
  }
  void expect_untouched() const {
    for (const char* name : {"thesis.txt", "below/data"}) {
      std::ifstream file(victim_ / name);
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "precious") << name;
    }
  }

  test::TemporaryDirectory temporary_;
  const fs::path place_ = temporary_.path();
  const fs::path victim_ = place_ / "victim";
};

TEST_F(DirectoryTest, WritesAndReadsTextAsAWhole) {
  const Directory own = Directory::open(place_ / "own");
  own.write_text("note", "first", 0600, true);
  own.write_text("note", "second", 0640, false);
  EXPECT_EQ(own.read_text("note", 6), "second");
  EXPECT_THROW(static_cast<void>(own.read_text("note", 5)), StorageError);
  EXPECT_EQ(mode_of(place_ / "own" / "note"), 0640U);
  EXPECT_EQ(own.list().size(), 1U) << "the temporary name is gone";
}

TEST_F(DirectoryTest, WhatItMakesHasTheGroupOfTheDirectory) {
  ASSERT_EQ(::chmod((place_ / "own").c_str(), 02750), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((place_ / "own").c_str(), static_cast<uid_t>(-1), 12345), 0);
  }
  const mode_t before = ::umask(0277);
  const Directory made = Directory::open(place_ / "own").make_directory("made", 0700);
  ::umask(before);
  EXPECT_EQ(mode_of(place_ / "own" / "made"), 02700U);
  static_cast<void>(made.open_file("file", O_RDWR | O_CREAT, 0600));
  struct stat inside = {};
  ASSERT_EQ(::stat((place_ / "own/made/file").c_str(), &inside), 0);
  EXPECT_EQ(inside.st_gid, Directory::open(place_ / "own").status().st_gid);
}

TEST_F(DirectoryTest, FollowsNoLinkAndWritesThroughNone) {
  const Directory own = Directory::open(place_ / "own");
  fs::create_symlink(victim_ / "thesis.txt", place_ / "own" / "note");
  fs::create_symlink(victim_ / "thesis.txt", place_ / "own" / "note.new");
  fs::create_directory_symlink(victim_, place_ / "own" / "tree");
  EXPECT_THROW(static_cast<void>(own.open_file("note", O_RDWR)), StorageError);
  EXPECT_THROW(static_cast<void>(own.open_directory("tree")), StorageError);
  own.write_text("note", "mine", 0600, false);  // replaces the link, not what it leads to
  own.remove_tree("tree");
  EXPECT_FALSE(own.contains("tree"));
  EXPECT_EQ(own.read_text("note", 100), "mine");
  expect_untouched();
}

TEST_F(DirectoryTest, RemovesTreesWithoutFollowingTheLinksInThem) {
  fs::create_directories(place_ / "own" / "tree" / "deeper");
  std::ofstream(place_ / "own" / "tree" / "deeper" / "file") << "text";
  fs::create_directory_symlink(victim_, place_ / "own" / "tree" / "deeper" / "link");
  const Directory own = Directory::open(place_ / "own");
  own.remove_tree("tree");
  own.remove_tree("never was there");
  EXPECT_TRUE(own.list().empty());
  expect_untouched();
}

TEST_F(DirectoryTest, NeverWaitsForAFifo) {
  ASSERT_EQ(::mkfifo((place_ / "own" / "note").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((place_ / "own" / "note.new").c_str(), 0600), 0);
  const Directory own = Directory::open(place_ / "own");
  EXPECT_THROW(static_cast<void>(own.open_file("note", O_RDONLY)), StorageError);
  EXPECT_THROW(static_cast<void>(own.open_file("note", O_WRONLY)), StorageError);
  own.write_text("note", "text", 0600, false);
  EXPECT_EQ(own.read_text("note", 100), "text");
}

/// A server of network files lends a file to a client, and takes a moment to get it back. Only that is waited for.
TEST_F(DirectoryTest, WaitsForAFileThatIsLent) {
  const fs::path file = place_ / "own" / "note";
  std::ofstream(file) << "text";
  const Directory own = Directory::open(place_ / "own");
  for (const auto& open :
       std::vector<std::function<Descriptor()>>{[&] { return own.open_file("note", O_RDONLY); },
                                                [&] { return open_file_by_path(file, O_RDONLY, 0, Links::refused); }}) {
    const Descriptor lent = own.open_file("note", O_RDWR);
    ASSERT_EQ(::fcntl(lent.get(), F_SETSIG, SIGWINCH), 0);  // one that does nothing
    if (::fcntl(lent.get(), F_SETLEASE, F_WRLCK) != 0) {
      GTEST_SKIP() << "this file system lends nothing";
    }
    std::thread back([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(::fcntl(lent.get(), F_SETLEASE, F_UNLCK), 0);
    });
    EXPECT_NO_THROW(EXPECT_TRUE(open().is_open()));
    back.join();
  }
}

/// The handle stays with the directory that was opened, whatever somebody puts at its path.
TEST_F(DirectoryTest, StaysWithTheDirectoryThatWasOpened) {
  const Directory own = Directory::open(place_ / "own");
  EXPECT_TRUE(own.is_at_its_path());
  fs::rename(place_ / "own", place_ / "moved");
  fs::create_directory_symlink(victim_, place_ / "own");
  own.write_text("thesis.txt", "mine", 0600, false);
  EXPECT_FALSE(own.is_at_its_path());
  EXPECT_TRUE(fs::exists(place_ / "moved" / "thesis.txt"));
  expect_untouched();
}

/// A user may put a link to a larger disk: it is resolved once.
TEST_F(DirectoryTest, IsReachedThroughALinkOfTheUsers) {
  fs::create_directory_symlink(place_ / "own", place_ / "link");
  const Directory own = Directory::open(place_ / "link");
  EXPECT_EQ(own.path(), fs::canonical(place_ / "own"));
  EXPECT_TRUE(own.is_at_its_path());
}

/// `link/..` is where the link leads to, and not where it lies.
TEST_F(DirectoryTest, DotsInAPathAreThoseOfTheSystem) {
  fs::create_directory_symlink(victim_ / "below", place_ / "link");
  const fs::path victim = fs::canonical(victim_);
  EXPECT_EQ(without_dots(place_ / "link/../ck"), victim / "ck");
  EXPECT_EQ(without_dots(place_ / "./link/.././/ck/"), victim / "ck");
  EXPECT_EQ(without_dots(place_ / "link/ck/"), place_ / "link/ck") << "a link itself stays";
  EXPECT_EQ(without_dots(place_ / "own/../ck"), fs::canonical(place_) / "ck");
  EXPECT_EQ(without_dots(place_ / "none/../ck"), place_ / "ck");
  EXPECT_THROW(static_cast<void>(without_dots(victim_ / "thesis.txt/../ck")), StorageError);
  EXPECT_EQ(without_dots("a/./b/"), "a/b");
  EXPECT_EQ(without_dots("../.."), "../..");
  EXPECT_EQ(without_dots("./"), ".");
  EXPECT_EQ(without_dots("/../"), "/");
}

/// A program may have closed what others print to: a line of theirs must not land in a file of ours.
TEST_F(DirectoryTest, DescriptorsAreNoneOfTheStandardOnes) {
  std::array<int, 4> numbers{};
  bool is_free = false;
  {
    const test::ClosedDescriptors closed;
    const Directory own = Directory::open(place_ / "own");
    const Descriptor file = own.open_file("file", O_RDWR | O_CREAT, 0600);
    const storage::PosixFile memory = storage::PosixFile::create_in_memory();
    int foreign = -1;
    {
      const StandardDescriptors taken;
      foreign = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      ::close(foreign);
    }
    numbers = {own.descriptor(), file.get(), memory.descriptor(), foreign};
    is_free = ::fcntl(0, F_GETFD) < 0 && ::fcntl(2, F_GETFD) < 0;
  }
  EXPECT_THAT(numbers, testing::Each(testing::Gt(2)));
  EXPECT_TRUE(is_free) << "they are given back";
}

TEST_F(DirectoryTest, TakesSingleNamesAlone) {
  const Directory own = Directory::open(place_ / "own");
  for (const char* name : {"", ".", "..", "../victim", "/etc/passwd", "a/b"}) {
    EXPECT_THROW(static_cast<void>(own.status_of(name)), StorageError) << name;
    EXPECT_THROW(static_cast<void>(own.open_file(name, O_RDONLY)), StorageError) << name;
    EXPECT_THROW(own.remove_tree(name), StorageError) << name;
  }
}

TEST_F(DirectoryTest, ListsNamesAndKindsInOrder) {
  std::ofstream(place_ / "own" / "b") << "";
  fs::create_directory(place_ / "own" / "a");
  fs::create_symlink("nowhere", place_ / "own" / "c");
  std::vector<std::string> shown;
  for (const DirectoryEntry& entry : Directory::open(place_ / "own").list()) {
    shown.push_back(entry.name + std::to_string(static_cast<int>(entry.kind)));
  }
  EXPECT_THAT(shown, ElementsAre("a1", "b0", "c2"));
}

TEST_F(DirectoryTest, SaysWhatIsMissing) {
  EXPECT_THAT(test::error_text<StorageError>([&] { static_cast<void>(Directory::open(place_ / "not there")); }),
              HasSubstr("not there: No such file"));
  const Directory own = Directory::open(place_ / "own");
  EXPECT_FALSE(own.remove_file("nothing"));
  EXPECT_FALSE(own.remove_empty_directory("nothing"));
}

// What the library makes has the rights that are promised, whatever the umask: also for a user whom rights bind.

class Umask : public testing::TestWithParam<mode_t> {
 protected:
  /// Runs @p action under the umask in a child, as root for a user whom rights bind.
  static void run(const std::function<void()>& action) {
    EXPECT_TRUE(test::in_child([&] {
      constexpr uid_t kNobody = 65534;
      if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) {
        return false;
      }
      ::umask(GetParam());
      action();
      return true;
    }));
  }

  Umask() { ::chmod(directory_.path().c_str(), 0777); }
  test::TemporaryDirectory directory_;
};

TEST_P(Umask, ADirectoryIsUsableByItsUser) {
  const fs::path made = directory_.path() / "made";
  run([&] {
    const Directory above = Directory::open(directory_.path()).make_directory("made", kOwnDirectory);
    static_cast<void>(above.make_directory("below", kOwnDirectory));
  });
  EXPECT_EQ(mode_of(made), 0700U);
  EXPECT_EQ(mode_of(made / "below"), 0700U);
}

TEST_P(Umask, AFileIsUsableByItsUser) {
  const fs::path file = directory_.path() / "file";
  run([&] {
    static_cast<void>(storage::PosixFile::create(file));
    static_cast<void>(storage::PosixFile::open_to_write(file));
    manager::DirectoryLock(directory_.path() / "lock", manager::LockHolder::self("here", 1), {});
    manager::DirectoryLock(directory_.path() / "lock", manager::LockHolder::self("here", 1), {});
  });
  EXPECT_EQ(mode_of(file), 0600U);
}

TEST_P(Umask, AWriteDirectoryIsUsableByItsUser) {
  run([&] {
    static_cast<void>(Directory::open(directory_.path()).make_directory("checkpoints", kOwnDirectory));
    const core::WriteDirectory made(directory_.path() / "checkpoints", 1);
    if (mode_of(made.path()) != 0700U || mode_of(made.path().parent_path()) != 0700U) {
      throw std::runtime_error("not usable");
    }
  });
}

TEST(FileRights, ARefusalToChangeThemIsNoError) {
  for (const int refusal : {EPERM, EOPNOTSUPP, ENOSYS, EINVAL}) {
    EXPECT_TRUE(has_no_rights(refusal)) << refusal;
  }
  for (const int fault : {EIO, EROFS, ENOENT}) {
    EXPECT_FALSE(has_no_rights(fault)) << fault;
  }
}

INSTANTIATE_TEST_SUITE_P(FileRights, Umask, testing::Values(0, 077, 0177, 0277, 0777));

// The write directories of ranks other than rank 0, which runs with neighbouring checkpoint directories share in
// part, and which lie in places where other users may have been before.

class WriteDirectoryTest : public testing::Test {
 protected:
  WriteDirectoryTest() {
    fs::create_directories(a_);
    fs::create_directories(b_);
  }

  const test::TemporaryDirectory temporary_;
  const fs::path a_ = temporary_ / "a";
  const fs::path b_ = temporary_ / "b";
  const fs::path inside_ = a_ / "workertemp_3" / "a";
};

/// Empty when it is made, and gone at the end.
TEST_F(WriteDirectoryTest, LiesBesideTheCheckpointDirectory) {
  const fs::path place = temporary_ / "workertemp_3/a";
  fs::create_directories(place);
  std::ofstream(place / "left behind") << "x";
  {
    const WriteDirectory made(a_, 3);
    EXPECT_EQ(made.path(), place);
    EXPECT_TRUE(fs::is_empty(place));
    std::ofstream(place / "content") << "x";
  }
  EXPECT_FALSE(fs::exists(temporary_ / "workertemp_3"));
  EXPECT_TRUE(fs::is_empty(a_));
}

TEST_F(WriteDirectoryTest, ThatOfAnotherCheckpointDirectoryIsNotTouched) {
  const WriteDirectory other(b_, 3);
  std::optional<WriteDirectory> made(std::in_place, a_, 3);
  made.reset();
  EXPECT_TRUE(fs::is_directory(other.path()));
}

TEST_F(WriteDirectoryTest, ALinkInItsPlaceIsReplacedAndNotFollowed) {
  fs::create_directories(temporary_ / "victim/content");
  fs::create_directory(temporary_ / "workertemp_3");
  fs::create_directory_symlink(temporary_ / "victim", temporary_ / "workertemp_3/a");
  const WriteDirectory made(a_, 3);
  EXPECT_FALSE(fs::is_symlink(made.path()));
  EXPECT_TRUE(fs::exists(temporary_ / "victim/content"));
}

TEST_F(WriteDirectoryTest, ANameThatIsTakenFailsNothing) {
  std::ofstream(temporary_ / "workertemp_3") << "x";
  std::ofstream(a_ / "workertemp_3") << "x";
  {
    const WriteDirectory made(a_, 3);
    EXPECT_EQ(made.path(), a_ / "workertemp_3.2/a");
    EXPECT_TRUE(fs::is_directory(made.path()));
  }
  EXPECT_TRUE(fs::is_regular_file(temporary_ / "workertemp_3"));
  EXPECT_TRUE(fs::is_regular_file(a_ / "workertemp_3"));
  EXPECT_FALSE(fs::exists(a_ / "workertemp_3.2"));
}

TEST_F(WriteDirectoryTest, InAParentThatOthersMayWriteItLiesInsideOfTheCheckpointDirectory) {
  for (const mode_t mode : {0770U, 0777U, 01777U}) {
    ASSERT_EQ(::chmod(temporary_.path().c_str(), mode), 0);
    EXPECT_EQ(WriteDirectory(a_, 3).path(), inside_) << mode;
    EXPECT_TRUE(fs::is_empty(a_));
  }
}

TEST_F(WriteDirectoryTest, WhatDeadRanksLeftIsRemovedInBothPlaces) {
  for (const fs::path& left : {temporary_ / "workertemp_3/a/x", inside_ / "x", a_ / "workertemp_4.2/a/x",
                               temporary_ / "workertemp_4/b/of-another-directory", a_ / "workertemp_x/a/not-ours"}) {
    fs::create_directories(left);
  }
  remove_write_directories(a_);
  EXPECT_FALSE(fs::exists(temporary_ / "workertemp_3"));
  EXPECT_FALSE(fs::exists(a_ / "workertemp_3"));
  EXPECT_FALSE(fs::exists(a_ / "workertemp_4.2"));
  EXPECT_TRUE(fs::exists(temporary_ / "workertemp_4/b"));
  EXPECT_TRUE(fs::exists(a_ / "workertemp_x/a"));
}

/// As `reprieve drill` does when its own directory is gone again.
TEST_F(WriteDirectoryTest, BesideADirectoryThatIsGoneOnlyThatOfRanksIsRemoved) {
  for (const auto* outer : {"workertemp_3", "workertemp_4", "workertemp_mine", "workertemp_"}) {
    fs::create_directories(temporary_ / outer / "gone");
  }
  fs::create_directories(temporary_ / "workertemp_4/another");
  remove_write_directories_beside(Directory::open(temporary_.path()), "gone");
  EXPECT_FALSE(fs::exists(temporary_ / "workertemp_3"));
  EXPECT_FALSE(fs::exists(temporary_ / "workertemp_4/gone"));
  EXPECT_TRUE(fs::exists(temporary_ / "workertemp_4/another"));
  EXPECT_TRUE(fs::exists(temporary_ / "workertemp_mine/gone")) << "the name of no rank";
  EXPECT_TRUE(fs::exists(temporary_ / "workertemp_/gone"));
}

TEST_F(WriteDirectoryTest, OtherJobsThatRemoveTheSharedParentDoNotDisturb) {
  std::atomic<int> failures = 0;
  const auto make_and_remove = [&](const fs::path& checkpoints) {
    for (int round = 0; round < 300; ++round) {
      try {
        const WriteDirectory made(checkpoints, 3);
        const bool lies_beside = made.path() == temporary_ / "workertemp_3" / checkpoints.filename();
        failures += lies_beside && fs::is_directory(made.path()) ? 0 : 1;
      } catch (const StorageError& error) {
        ADD_FAILURE() << error.what();  // the text tells which call it was
      }
    }
  };
  std::thread other(make_and_remove, b_);
  make_and_remove(a_);
  other.join();
  EXPECT_EQ(failures, 0);
}

/// Other users of the place in which the checkpoint directory lies.
class WriteDirectoryNeighbour : public WriteDirectoryTest {
 protected:
  void SetUp() override {
    if (!test::can_play_users()) {
      GTEST_SKIP() << "needs root, to play two users";
    }
    fs::create_directories(home_ / "a");
    std::ofstream(home_ / "a" / "thesis.txt") << "precious";
    for (const fs::path& path : {a_, home_, home_ / "a", home_ / "a" / "thesis.txt"}) {
      ASSERT_EQ(::chown(path.c_str(), test::kVictim, test::kVictim), 0);
    }
    ASSERT_EQ(::chmod(temporary_.path().c_str(), 0777), 0);
  }

  void expect_untouched() const { EXPECT_TRUE(fs::exists(home_ / "a" / "thesis.txt")); }

  const fs::path home_ = temporary_ / "home";
};

TEST_F(WriteDirectoryNeighbour, TwoUsersSaveBesideEachOther) {
  EXPECT_TRUE(test::as_user(test::kNeighbour, [&] {
    fs::create_directories(temporary_ / "workertemp_3/b");
    ASSERT_EQ(::chmod((temporary_ / "workertemp_3").c_str(), 0700), 0);
  }));
  EXPECT_TRUE(test::as_user(test::kVictim, [&] {
    const WriteDirectory made(a_, 3);
    EXPECT_EQ(made.path(), inside_);
    std::ofstream(made.path() / "shard") << "x";
    EXPECT_TRUE(fs::exists(made.path() / "shard"));
    EXPECT_NO_THROW(remove_write_directories(b_)) << "nor does the start of another run";
  }));
  EXPECT_TRUE(fs::is_empty(a_));
}

TEST_F(WriteDirectoryNeighbour, ALinkToTheVictimsHomeDeletesNothingThere) {
  EXPECT_TRUE(
      test::as_user(test::kNeighbour, [&] { fs::create_directory_symlink(home_, temporary_ / "workertemp_3"); }));
  EXPECT_TRUE(test::as_user(test::kVictim, [&] {
    EXPECT_EQ(WriteDirectory(a_, 3).path(), inside_);
    remove_write_directories(a_);
  }));
  expect_untouched();
}

/// The swap is made again and again while the victim saves; both the link and the directory are there at times.
TEST_F(WriteDirectoryNeighbour, ALinkThatIsSwappedInDuringTheSaveDeletesNothing) {
  {
    const test::Neighbour neighbour([&] {
      const fs::path name = temporary_ / "workertemp_3";
      std::error_code ignored;
      fs::create_directories(name / "a", ignored);
      fs::rename(name, temporary_ / "away", ignored);
      fs::create_directory_symlink(home_, name, ignored);
      fs::remove(name, ignored);
      fs::remove_all(temporary_ / "away", ignored);
    });
    EXPECT_TRUE(test::as_user(test::kVictim, [&] {
      for (int round = 0; round < 300; ++round) {
        EXPECT_EQ(WriteDirectory(a_, 3).path(), inside_);
        remove_write_directories(a_);
      }
    }));
  }
  expect_untouched();
}

}  // namespace
}  // namespace reprieve::core
