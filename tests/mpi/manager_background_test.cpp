// SPDX-License-Identifier: BSD-3-Clause
// Saves in the background: what is saved, when it is a checkpoint, and what goes wrong in the thread.

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "manager_fixture.hpp"

namespace reprieve::test {
namespace {

using testing::HasSubstr;

/// While it lives, this process can map only so many bytes more.
class LimitedMemory {
 public:
  explicit LimitedMemory(std::size_t bytes) {
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages;
    EXPECT_EQ(::getrlimit(RLIMIT_AS, &before_), 0);
    rlimit limited = before_;
    limited.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  }
  ~LimitedMemory() { EXPECT_EQ(::setrlimit(RLIMIT_AS, &before_), 0); }
  LimitedMemory(const LimitedMemory&) = delete;
  LimitedMemory& operator=(const LimitedMemory&) = delete;

 private:
  rlimit before_{};
};

class BackgroundSave : public ManagerTest {
 protected:
  /// Begins to save the state of seed = number, which is another one as soon as this returns.
  void begin(CheckpointManager& manager, int number) {
    state.set(number);
    CheckpointManager::SaveRequest request;
    request.number = static_cast<std::uint64_t>(number);
    manager.save_in_background(request);
    state.set(number + 50);
  }

  void expect_restored(int seed) {
    CheckpointManager manager = open();
    const auto info = manager.restore_or_initialize();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->number, static_cast<std::uint64_t>(seed));
    expect_state(seed);
  }
};

TEST_F(BackgroundSave, SavesTheStateOfTheMomentInWhichItBegan) {
  {
    CheckpointManager manager = open();
    begin(manager, 4);
    const auto report = manager.finish_background_save();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->number, 4U);
    EXPECT_GT(report->bytes, 0U);
    EXPECT_GE(report->seconds, report->blocked_seconds);
    EXPECT_GT(report->blocked_seconds, 0.0);
  }
  expect_restored(4);
}

TEST_F(BackgroundSave, IsNoCheckpointBeforeItIsFinished) {
  CheckpointManager manager = open();
  EXPECT_FALSE(manager.background_save_pending());
  EXPECT_TRUE(manager.background_save_written());
  begin(manager, 4);
  EXPECT_TRUE(manager.background_save_pending());
  EXPECT_FALSE(manager.latest());
  manager.finish_background_save();
  EXPECT_FALSE(manager.background_save_pending());
  EXPECT_TRUE(manager.background_save_written());
  EXPECT_EQ(manager.latest()->number, 4U);
  EXPECT_FALSE(manager.finish_background_save());
}

TEST_F(BackgroundSave, IsFinishedByTheNextSave) {
  {
    CheckpointManager manager = open();
    begin(manager, 4);
    begin(manager, 5);
    state.set(6);
    manager.save(6);
    EXPECT_FALSE(manager.background_save_pending());
  }
  EXPECT_EQ(names(), (Names{"ckpt-4.h5", "ckpt-5.h5", "ckpt-6.h5"}));
  expect_restored(6);
}

TEST_F(BackgroundSave, IsFinishedByTheEndOfTheManager) {
  {
    CheckpointManager manager = open();
    begin(manager, 4);
  }
  expect_restored(4);
}

TEST_F(BackgroundSave, IsFinishedByARestore) {
  CheckpointManager manager = open();
  begin(manager, 4);
  EXPECT_EQ(manager.restore_or_initialize()->number, 4U);
  expect_state(4);
}

TEST_F(BackgroundSave, IsLostIfTheManagerIsLeftByAnException) {
  try {
    CheckpointManager manager = open();
    begin(manager, 4);
    throw std::runtime_error("on every rank");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(open().latest());
  EXPECT_EQ(names(), Names{});
}

TEST_F(BackgroundSave, IsAnOrdinarySaveWithoutRoomForACopy) {
#ifdef REPRIEVE_SANITIZED
  GTEST_SKIP() << "the sanitizer ends a process that has no memory left";
#endif
  std::vector<double> large(std::size_t{1} << 23, 1.0);  // 64 MiB
  state.checkpoint.add_per_rank("large", large);
  {
    CheckpointManager manager = open();
    {
      const LimitedMemory limit(std::size_t{16} << 20U);
      begin(manager, 4);
    }
    EXPECT_FALSE(manager.background_save_pending());
    EXPECT_EQ(manager.latest()->number, 4U);
  }
  expect_restored(4);
}

TEST_F(BackgroundSave, AnErrorInAThreadReachesAllRanksAndCostsNothingElse) {
  if (world_size() == 1) {
    GTEST_SKIP() << "the only rank would see the limit before it begins to write";
  }
  std::vector<double> large(std::size_t{1} << 18, 1.0);  // 2 MiB on each rank
  state.checkpoint.add_per_rank("large", large);
  CheckpointManager manager = open();
  begin(manager, 4);
  manager.finish_background_save();
  SeenError seen;
  {
    const SmallFilesOnTheLastRank limit(1 << 20);
    begin(manager, 5);
    seen = same_error_on_all_ranks([&] { manager.finish_background_save(); });
  }
  EXPECT_EQ(seen.origin_rank, world_size() - 1);
  EXPECT_THAT(seen.message, HasSubstr("ckpt-5"));
  EXPECT_EQ(names(), Names{"ckpt-4.h5"});
  begin(manager, 6);
  manager.finish_background_save();
  EXPECT_EQ(names(), (Names{"ckpt-4.h5", "ckpt-6.h5"}));
}

TEST_F(BackgroundSave, NeedsTheDirectWriter) {
  CheckpointManager manager = open({.writer = WriterKind::mpio});
  const SeenError seen = same_error_on_all_ranks([&] { begin(manager, 4); });
  EXPECT_EQ(seen.code, ErrorCode::usage);
  const SeenError config =
      same_error_on_all_ranks([&] { static_cast<void>(open({.writer = WriterKind::mpio, .background = true})); });
  EXPECT_EQ(config.code, ErrorCode::config);
}

}  // namespace
}  // namespace reprieve::test
