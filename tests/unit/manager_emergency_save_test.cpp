// SPDX-License-Identifier: BSD-3-Clause
// The emergency save beside a save of all ranks: both need the same disk.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "manager/checkpoint_directory.hpp"
#include "manager/emergency_save.hpp"
#include "storage/local/part_file.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

using namespace std::chrono_literals;

constexpr auto kHang = 60s;

class EmergencySaveTest : public testing::Test {
 protected:
  EmergencySaveTest() {
    storage::PosixFile part = storage::make_part_file(place_.make(), NodeDirectory::part_name("5eed", 0, 0));
    storage::complete_part(part, 0, {{{"id", 3, 14}, "5eed", 7, "ckpt", 14, 14, 0, 1, 97, 2, 13}, 0},
                           {{0}, {1}, std::nullopt});
    std::filesystem::create_directory(checkpoints_ / kStagingName);
  }

  [[nodiscard]] bool is_flushed() const {
    return !names_of_flushed_parts(core::Directory::open(checkpoints_.path())).empty();
  }

  void write_staged(int piece) const {
    std::ofstream(checkpoints_ / kStagingName / "ckpt-7.1.h5", std::ios::app) << piece;
  }

  const test::TemporaryDirectory memory_;
  const test::TemporaryDirectory checkpoints_;
  const NodeDirectory place_{memory_.path(), "id", 7, "ckpt"};
  EmergencySave save_{core::Directory::open(checkpoints_.path()), place_, {"5eed", 0, 1}};
};

TEST_F(EmergencySaveTest, WaitsWhileTheOtherMakesProgress) {
  constexpr int kPieces = 12;
  save_.hold(2s);
  save_.begin();
  for (int piece = 0; piece < kPieces; ++piece) {  // for longer than it waits at least
    write_staged(piece);
    std::this_thread::sleep_for(500ms);
    EXPECT_FALSE(is_flushed()) << piece;
  }
  EXPECT_TRUE(test::wait_until([&] { return is_flushed(); }, kHang)) << "the other one hangs";
}

TEST_F(EmergencySaveTest, ContinuesWhereTheOtherHasFailed) {
  save_.hold(1h);
  save_.begin();
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(is_flushed());
  save_.release();
  EXPECT_TRUE(test::wait_until([&] { return is_flushed(); }, kHang));
}

}  // namespace
}  // namespace reprieve::manager
