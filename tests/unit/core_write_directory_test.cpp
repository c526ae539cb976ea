// SPDX-License-Identifier: BSD-3-Clause
// The write directories of ranks other than rank 0, which runs with neighbouring checkpoint directories share in
// part, and which lie in places where other users may have been before.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "core/directory.hpp"
#include "reprieve/error.hpp"
#include "support/other_user.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::core {
namespace {

namespace fs = std::filesystem;

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

TEST_F(WriteDirectoryTest, LiesBesideTheCheckpointDirectory) {
  EXPECT_EQ(WriteDirectory(a_, 3).path(), temporary_ / "workertemp_3/a");
}

TEST_F(WriteDirectoryTest, IsEmptyWhenMadeAndGoneAtTheEnd) {
  fs::create_directories(temporary_ / "workertemp_3/a");
  std::ofstream(temporary_ / "workertemp_3/a/left behind") << "x";
  {
    const WriteDirectory made(a_, 3);
    EXPECT_TRUE(fs::is_empty(made.path()));
    std::ofstream(made.path() / "content") << "x";
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
