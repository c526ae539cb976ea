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

constexpr std::uint64_t kRun = 3;
constexpr int kRank = 5;
const storage::PartName kName{{{"id", kRun, 14}, 15, "ckpt", 92, 65, 35, 8, 97, 2, 13}, kRank};

class NodeDirectoryTest : public testing::Test {
 protected:
  /// As a rank does at its first copy. The part is its own until the file is closed.
  [[nodiscard]] storage::PosixFile begin_part() const {
    storage::PosixFile part = storage::make_part_file(place.make(), NodeDirectory::part_name(kRun, kRank, 0));
    storage::complete_part(part, 0, kName, {{0}, {1}, std::nullopt});
    return part;
  }

  [[nodiscard]] std::vector<LocalFolder> look() const { return local_folders(memory.path()); }

  const test::TemporaryDirectory memory{"/dev/shm"};
  const NodeDirectory place{memory.path(), kName.copy.save.directory_id, kName.copy.directory_inode, kName.copy.prefix};
};

TEST_F(NodeDirectoryTest, IsInUseAsLongAsARankHasAPart) {
  EXPECT_THAT(look(), IsEmpty());
  storage::PosixFile part = begin_part();
  ASSERT_THAT(look(), SizeIs(1));
  EXPECT_TRUE(look().front().in_use);
  EXPECT_THAT(look().front().parts, SizeIs(1));
  part.close();
  EXPECT_FALSE(look().front().in_use);
  place.remove_parts(kRun, kRank, {});
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(NodeDirectoryTest, CanBeLookedAtWhilePartsComeAndGo) {
  constexpr int kRuns = 20000;
  std::atomic<int> runs{0};
  std::thread run([&] {
    for (; runs < kRuns && !HasFatalFailure(); ++runs) {
      ASSERT_NO_THROW(begin_part().close());
      place.remove_parts(kRun, kRank, {});
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

}  // namespace
}  // namespace reprieve::manager
