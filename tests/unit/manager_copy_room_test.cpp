// SPDX-License-Identifier: BSD-3-Clause
// What memory there is for copies of the state: read from the system's files, and shared out among ranks.

#include <gmock/gmock.h>

#include <fstream>

#include "manager/save.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::uint64_t kMega = std::uint64_t{1} << 20U;

class AvailableMemoryTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_.path() / file).parent_path());
    std::ofstream(root_.path() / file) << text;
  }
  [[nodiscard]] core::AvailableMemory read() const { return core::available_memory(root_.path()); }

  test::TemporaryDirectory root_;
};

TEST_F(AvailableMemoryTest, NothingKnownIsNoLimit) {
  EXPECT_EQ(read().of_node, UINT64_MAX);
  EXPECT_EQ(read().of_group, UINT64_MAX);
}

TEST_F(AvailableMemoryTest, TheNodeTellsWhatItHasLeft) {
  write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:     5000 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(read().of_node, 5000U * 1024);
}

TEST_F(AvailableMemoryTest, TheTightestGroupAboveCountsInVersionTwo) {
  write("proc/self/cgroup", "0::/job/step/task\n");
  write("sys/fs/cgroup/job/memory.max", "1000\n");
  write("sys/fs/cgroup/job/memory.current", "700\n");
  write("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 100\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.current", "700\n");
  write("sys/fs/cgroup/job/step/task/memory.max", "900\n");
  write("sys/fs/cgroup/job/step/task/memory.current", "100\n");
  EXPECT_EQ(read().of_group, 400U);
  EXPECT_THAT(read().group, testing::EndsWith("sys/fs/cgroup/job"));
}

TEST_F(AvailableMemoryTest, VersionOneIsReadAsWell) {
  write("proc/self/cgroup", "8:pids:/x\n4:cpu,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1200\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 300\n");
  EXPECT_EQ(read().of_group, 100U);
}

TEST_F(AvailableMemoryTest, APathOfOutsideOfAContainerLeadsToTheGroupThatIsSeen) {
  write("proc/self/cgroup", "0::/kubepods/pod1/box\n");
  write("sys/fs/cgroup/memory.max", "1000\n");
  write("sys/fs/cgroup/memory.current", "400\n");
  EXPECT_EQ(read().of_group, 600U);
}

TEST(AvailableMemory, OfThisMachineIsSomething) {
  EXPECT_GT(core::available_memory().of_node, 0U);
  EXPECT_LT(core::available_memory().of_node, UINT64_MAX);
}

CopyDemand demand(const std::string& host, std::uint64_t bytes, std::uint64_t of_node) {
  return {host, bytes, {of_node, UINT64_MAX, {}}};
}

TEST(CopyRoom, RanksOfAHostShareItsMemory) {
  const std::vector<CopyDemand> one{demand("a", 60 * kMega, 100 * kMega), demand("b", 60 * kMega, 100 * kMega)};
  EXPECT_EQ(why_copies_do_not_fit(one), "");
  const std::vector<CopyDemand> both{demand("a", 60 * kMega, 100 * kMega), demand("a", 60 * kMega, 110 * kMega)};
  EXPECT_THAT(why_copies_do_not_fit(both), HasSubstr(std::to_string(120 * kMega) + " bytes on a"));
}

TEST(CopyRoom, APartStaysFree) {
  EXPECT_NE(why_copies_do_not_fit(std::vector{demand("a", 100 * kMega, 100 * kMega)}), "");
}

TEST(CopyRoom, RanksOfAControlGroupShareItsLimit) {
  const auto in_group = [](const std::string& group) {
    return CopyDemand{"a", 60 * kMega, {1000 * kMega, 100 * kMega, group}};
  };
  EXPECT_EQ(why_copies_do_not_fit(std::vector{in_group("/1"), in_group("/2")}), "");
  EXPECT_THAT(why_copies_do_not_fit(std::vector{in_group("/1"), in_group("/1")}), HasSubstr("control group /1"));
}

TEST(CopyRoom, WhoHasItsMemoryAlreadyNeedsNone) {
  EXPECT_EQ(why_copies_do_not_fit(std::vector{demand("a", 0, 0)}), "");
}

}  // namespace
}  // namespace reprieve::manager
