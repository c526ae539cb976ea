// SPDX-License-Identifier: BSD-3-Clause
// Rank 0's view of a checkpoint directory, where it needs no valid checkpoint.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "manager/checkpoint_directory.hpp"
#include "reprieve/error.hpp"
#include "support/temporary_directory.hpp"

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

TEST_F(CheckpointDirectoryTest, OfACorruptFileNothingIsKnown) {
  touch(directory.file(1));
  EXPECT_FALSE(directory.info(1).has_value());
  EXPECT_FALSE(directory.info(1).has_value());
  EXPECT_FALSE(directory.info(2).has_value());
}

TEST_F(CheckpointDirectoryTest, CorruptFilesAreNotRetired) {
  for (std::uint64_t number = 1; number <= 5; ++number) {
    touch(directory.file(number));
  }
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

TEST_F(CheckpointDirectoryTest, StagingIsEmptyAndThisUsersAlone) {
  touch(directory.staging() / "left behind");
  directory.prepare_staging(1);
  EXPECT_TRUE(fs::is_empty(directory.staging()));
  struct stat status = {};
  ASSERT_EQ(::stat(directory.staging().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
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

}  // namespace
}  // namespace reprieve::manager
