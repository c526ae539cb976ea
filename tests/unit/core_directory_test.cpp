// SPDX-License-Identifier: BSD-3-Clause
// A directory as a handle: what somebody else puts in the way of a name leads nowhere.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "core/directory.hpp"
#include "reprieve/error.hpp"
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

TEST_F(DirectoryTest, GivesTheModesThatAreAskedForWhateverTheUmask) {
  const mode_t before = ::umask(0777);
  const Directory own = Directory::open(place_ / "own");
  static_cast<void>(own.make_directory("made", 0700));
  own.write_text("note", "text", 0600, false);
  ::umask(before);
  EXPECT_EQ(mode_of(place_ / "own" / "made"), 0700U);
  EXPECT_EQ(mode_of(place_ / "own" / "note"), 0600U);
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

TEST_F(DirectoryTest, TakesSingleNamesAlone) {
  const Directory own = Directory::open(place_ / "own");
  for (const char* name : {"", ".", "..", "../victim", "/etc/passwd", "a/b"}) {
    EXPECT_THROW(static_cast<void>(own.look(name)), StorageError) << name;
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
  try {
    static_cast<void>(Directory::open(place_ / "not there"));
    FAIL() << "opened";
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("not there: No such file"));
  }
  const Directory own = Directory::open(place_ / "own");
  EXPECT_FALSE(own.remove_file("nothing"));
  EXPECT_FALSE(own.remove_empty_directory("nothing"));
}

}  // namespace
}  // namespace reprieve::core
