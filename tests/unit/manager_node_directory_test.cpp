// SPDX-License-Identifier: BSD-3-Clause
// The place of node-local copies while a run lives in it: tools that look at it neither fail nor disturb the run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "manager/node_directory.hpp"
#include "storage/local/part_file.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const std::string kLaunch = "5eed";
constexpr int kRank = 5;
const storage::PartName kName{{{"id", 3, 14}, kLaunch, 15, "ckpt", 92, 65, 35, 8, 97, 2, 13}, kRank};

class NodeDirectoryTest : public testing::Test {
 protected:
  /// As a rank does at its first copy. The part is its own until the file is closed.
  [[nodiscard]] storage::PosixFile begin_part() const {
    storage::PosixFile part = storage::make_part_file(place.make(), NodeDirectory::part_name(kLaunch, kRank, 0));
    storage::complete_part(part, 0, kName, {{0}, {1}, std::nullopt});
    return part;
  }

  [[nodiscard]] std::vector<LocalFolder> look() const { return local_folders(memory.path()); }

  const test::TemporaryDirectory memory{"/dev/shm"};
  const NodeDirectory place{memory.path(), kName.copy.save.directory_id, kName.copy.directory_key, kName.copy.prefix};
};

TEST_F(NodeDirectoryTest, IsInUseAsLongAsARankHasAPart) {
  EXPECT_THAT(look(), IsEmpty());
  storage::PosixFile part = begin_part();
  ASSERT_THAT(look(), SizeIs(1));
  EXPECT_TRUE(look().front().in_use);
  EXPECT_THAT(look().front().parts, SizeIs(1));
  part.close();
  EXPECT_FALSE(look().front().in_use);
  place.remove_parts(kLaunch, kRank, {});
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(NodeDirectoryTest, CanBeLookedAtWhilePartsComeAndGo) {
  constexpr int kRuns = 20000;
  std::atomic<int> runs{0};
  std::thread run([&] {
    for (; runs < kRuns && !HasFatalFailure(); ++runs) {
      ASSERT_NO_THROW(begin_part().close());
      place.remove_parts(kLaunch, kRank, {});
    }
    runs = kRuns;
  });
  int looks = 0;
  for (; runs < kRuns && !HasFailure(); ++looks) {
    EXPECT_NO_THROW(static_cast<void>(look()));
  }
  run.join();
  EXPECT_GE(looks, 1);
  EXPECT_THAT(look(), IsEmpty());
}

/// As that of a copy on another device, or of a directory that was put back.
TEST(DirectoryKey, TellsADirectoryFromAnotherWithItsInode) {
  const test::TemporaryDirectory temporary;
  const std::filesystem::path path = temporary / "checkpoints";
  const auto make = [&] {
    std::filesystem::create_directory(path);
    const core::Directory made = core::Directory::open(path);
    return std::pair(made.status().st_ino, directory_key(made));
  };
  const auto first = make();
  std::filesystem::rename(path, temporary / "moved");
  EXPECT_EQ(directory_key(core::Directory::open(temporary / "moved")), first.second);
  std::filesystem::remove(temporary / "moved");
  const auto second = make();
  EXPECT_NE(second.second, first.second);
  if (second.first != first.first) {
    GTEST_SKIP() << "this file system gave it another inode";
  }
}

}  // namespace
}  // namespace reprieve::manager
