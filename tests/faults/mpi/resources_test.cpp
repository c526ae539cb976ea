// SPDX-License-Identifier: BSD-3-Clause
// A copy for a save in the background that fits into each rank's share, but not for all ranks together into their
// control group: Linux would promise the memory, and kill a rank when it is used.

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "faults/injector/faulty_calls.hpp"
#include "large_state.hpp"
#include "mpi/handler_fixture.hpp"
#include "mpi/manager_fixture.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMega = std::uint64_t{1} << 20U;

int first_pid() {
  int pid = ::getpid();
  MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return pid;
}

/// A control group (version 1) that all ranks are in while it lives; empty if this machine or user cannot have one.
class MemoryGroup {
 public:
  MemoryGroup() {
    const fs::path above = "/sys/fs/cgroup/memory" + own_path();
    before_ = above / "cgroup.procs";
    path_ = above / ("reprieve-test-" + std::to_string(first_pid()));
    if (world_rank() == 0) {
      std::error_code ignored;
      fs::create_directory(path_, ignored);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int entered = ::access(before_.c_str(), W_OK) == 0 && write(path_ / "cgroup.procs", ::getpid()) ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &entered, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    is_there_ = entered != 0;
  }
  ~MemoryGroup() {
    write(before_, ::getpid());
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0) {
      ::rmdir(path_.c_str());
    }
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  [[nodiscard]] bool is_there() const noexcept { return is_there_; }
  [[nodiscard]] std::uint64_t used() const { return read(path_ / "memory.usage_in_bytes"); }
  void limit(std::uint64_t bytes) const {
    if (world_rank() == 0) {
      ASSERT_TRUE(write(path_ / "memory.limit_in_bytes", bytes));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

 private:
  static std::string own_path() {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      if (const auto place = line.find(":memory:"); place != std::string::npos) {
        return line.substr(place + 8);
      }
    }
    return "/none";
  }
  template <class Value>
  static bool write(const fs::path& file, Value value) {
    std::ofstream stream(file);
    stream << value << std::flush;
    return stream.good();
  }
  static std::uint64_t read(const fs::path& file) {
    std::uint64_t value = 0;
    std::ifstream(file) >> value;
    return value;
  }

  fs::path before_;
  fs::path path_;
  bool is_there_ = false;
};

class CopyRoom : public ManagerTest {};

TEST_F(CopyRoom, WithoutItTheSaveIsDoneAtOnce) {
  REPRIEVE_NEEDS_RANKS(2);
  const MemoryGroup group;
  if (!group.is_there()) {
    GTEST_SKIP() << "needs a control group for memory that this user can write";
  }
  constexpr std::uint64_t kPart = 100 * kMega / sizeof(double);
  const auto size = static_cast<std::uint64_t>(world_size());
  std::vector<double> large(kPart, 1.0);
  add_large(state.checkpoint, large);
  // On a disk: files in memory count for the group.
  const fs::path on_disk = "/var/tmp/reprieve-copy-room-" + std::to_string(first_pid());
  std::optional<CheckpointManager> opened;
  opened.emplace(MPI_COMM_WORLD, state.checkpoint, on_disk, ManagerOptions{.io = FileIo::direct});
  CheckpointManager& manager = *opened;
  MPI_Barrier(MPI_COMM_WORLD);
  // Room for one and a half copies, of the two that are needed.
  group.limit(group.used() + size * 100 * kMega * 3 / 4);
  CheckpointManager::SaveRequest request;
  request.number = 1;
  manager.save_in_background(request);
  EXPECT_FALSE(manager.background_save_pending());
  EXPECT_EQ(manager.latest()->number, 1U);
  // With room, the next one is written by a thread.
  group.limit(group.used() + size * 100 * kMega * 3);
  request.number = 2;
  manager.save_in_background(request);
  EXPECT_TRUE(manager.background_save_pending());
  ASSERT_TRUE(manager.finish_background_save());
  EXPECT_EQ(manager.latest()->number, 2U);
  opened.reset();
  on_rank_0([&] { fs::remove_all(on_disk); });
}

// File systems may take seconds to free the space of a large file. The save of a preemption is the last thing before
// the end: it waits for none of that.

class SlowRemoval : public ManagerTest {
 protected:
  static void save(CheckpointManager& manager, std::uint64_t number, SaveReason::Kind kind) {
    CheckpointManager::SaveRequest request;
    request.number = number;
    request.reason.kind = kind;
    manager.save(request);
  }

  CheckpointManager manager = open({.max_to_keep = 1, .recycle = false});
};

/// If the save waited, it would do so for ever, since the call is let go after it.
TEST_F(SlowRemoval, OfAnOlderCheckpointIsNotWaitedFor) {
  save(manager, 1, SaveReason::Kind::user);
  on_rank_0([] { arm({.call = Call::close, .error = kHold, .count = kAlways, .path = "ckpt-1.h5 (deleted)"}); });
  save(manager, 2, SaveReason::Kind::user);
  on_rank_0([] {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (hits().failed == 0 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(hits().failed, 1U) << "the space of the first checkpoint is being freed";
  });
  state.set(3);
  save(manager, 3, SaveReason::Kind::preemption);
  on_rank_0([] { EXPECT_EQ(disarm().failed, 1U); });
  EXPECT_EQ(names(), (Names{"ckpt-2.h5", "ckpt-3.h5"}));
  state.set(4);
  ASSERT_TRUE(manager.restore_or_initialize());
  expect_state(3);
}

TEST_F(SlowRemoval, IsLeftToTheNextSave) {
  const auto count_removals = [] {
    on_rank_0([] { arm({.call = Call::unlink, .error = EIO, .occurrence = kAlways, .path = "/ckpt-2.h5"}); });
  };
  const auto expect_removals = [](std::uint64_t expected) { on_rank_0([&] { EXPECT_EQ(disarm().seen, expected); }); };
  save(manager, 1, SaveReason::Kind::user);
  save(manager, 2, SaveReason::Kind::user);
  count_removals();
  save(manager, 3, SaveReason::Kind::preemption);
  expect_removals(0);
  EXPECT_EQ(names(), (Names{"ckpt-2.h5", "ckpt-3.h5"}));
  count_removals();
  save(manager, 4, SaveReason::Kind::user);
  expect_removals(1);
  EXPECT_EQ(names(), (Names{"ckpt-4.h5"}));
}

// A rank that gets fewer threads than it asks for, or none, saves all the same: never an error, never a wait.

/// How many threads the last rank still gets during a save.
class ThreadsLeft : public ManagerTest, public testing::WithParamInterface<int> {
 protected:
  static constexpr std::size_t kPart = 1'000'003;  // enough for buffers and threads of its own

  ThreadsLeft() : large_(kPart) { add_large(state.checkpoint, large_); }

  void set_state(int seed) {
    state.set(seed);
    std::iota(large_.begin(), large_.end(), 1e6 * seed);
  }

  /// Saves by @p save while threads are short, then restores.
  void expect_saved_by(const std::function<void(CheckpointManager&)>& save) {
    CheckpointManager manager = open({.io = FileIo::direct});
    set_state(1);
    if (world_rank() == world_size() - 1) {
      arm({.call = Call::thread,
           .error = EAGAIN,
           .occurrence = static_cast<std::uint64_t>(GetParam()) + 1,
           .count = kAlways});
    }
    save(manager);
    disarm();
    set_state(2);
    ASSERT_TRUE(manager.restore_or_initialize());
    expect_state(1);
    std::vector<double> expected(kPart);
    std::iota(expected.begin(), expected.end(), 1e6);
    EXPECT_TRUE(large_ == expected);
    MPI_Barrier(MPI_COMM_WORLD);
  }

 private:
  std::vector<double> large_;
};

TEST_P(ThreadsLeft, AreEnoughForASave) {
  expect_saved_by([](CheckpointManager& manager) { manager.save(1); });
}

TEST_P(ThreadsLeft, AreEnoughForASaveInTheBackground) {
  expect_saved_by([](CheckpointManager& manager) {
    CheckpointManager::SaveRequest request;
    request.number = 1;
    manager.save_in_background(request);
    manager.finish_background_save();
  });
}

INSTANTIATE_TEST_SUITE_P(Faults, ThreadsLeft, testing::Range(0, 5));

// A disk that is full on the last rank alone: all ranks do the same.

/// Whether saves are written in the background.
class FullDiskOfOneRank : public ProgramTest, public testing::WithParamInterface<bool> {
 protected:
  FullDiskOfOneRank() {
    program.options.background = GetParam();
    program.options.max_to_keep = 0;
    program.config.save_every_steps = 10;
  }
  /// Rank 0 also writes what makes a file a checkpoint, at a time of its own.
  void SetUp() override { REPRIEVE_NEEDS_RANKS(2); }

  void fill() const {
    wait_for_writers();
    if (world_rank() == last_rank()) {
      arm({.call = Call::write, .error = ENOSPC, .count = kAlways, .path = ".chieftemp/"});
    }
  }
  void empty() const {
    wait_for_writers();
    disarm();
  }

  void expect_checkpoints(const std::vector<std::uint64_t>& expected) {
    std::vector<std::uint64_t> numbers;
    for (const CheckpointInfo& info : program.handler->manager().checkpoints()) {
      numbers.push_back(info.number);
    }
    EXPECT_EQ(numbers, expected);
  }
  void expect_no_space(
      int steps, const std::function<void(int)>& before_step = [](int) {}) {
    try {
      program.run(steps, before_step);
      ADD_FAILURE() << "no error";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.code(), ErrorCode::no_space) << error.what();
    }
    empty();
  }

 private:
  void wait_for_writers() const {
    while (!program.handler->manager().background_save_written()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
};

TEST_P(FullDiskOfOneRank, IsOutlivedByTheRunUntilThereIsRoom) {
  program.start();
  program.run(15);
  fill();
  program.run(35);  // saves at 20 and at 30
  EXPECT_EQ(program.handler->last_save()->number, 10U);
  empty();
  program.run(45);
  fill();
  program.run(65);  // at 50 and at 60: the count has begun again
  empty();
  program.run(75);
  program.handler->finish();
  expect_checkpoints({10, 40, 70, 75});
  EXPECT_EQ(program.field, uninterrupted(75));
}

TEST_P(FullDiskOfOneRank, IsAnErrorAfterSoManySavesInARow) {
  program.config.save_attempts = 2;
  program.start();
  program.run(15);
  fill();
  expect_no_space(100);
  EXPECT_GE(program.handler->total_run_calls(), 30U);
  EXPECT_LE(program.handler->total_run_calls(), 40U);
  expect_checkpoints({10});
}

TEST_P(FullDiskOfOneRank, IsAnErrorAtOnceIfThatIsWanted) {
  program.config.save_attempts = 1;
  program.start();
  fill();
  expect_no_space(100);
  EXPECT_LE(program.handler->total_run_calls(), 20U);
}

TEST_P(FullDiskOfOneRank, IsAnErrorAtAPreemption) {
  program.step_time = std::chrono::milliseconds(2);
  program.start();
  program.run(15);
  fill();
  expect_no_space(10'000, notice_at(16, 0));
  expect_checkpoints({10});
  EXPECT_THROW(program.run(10'000), Preempted) << "there is room, and the notice still stands";
}

INSTANTIATE_TEST_SUITE_P(Faults, FullDiskOfOneRank, testing::Bool());

// Periodic saves that nobody has asked for, on clocks that are set forward.

class PeriodicByDefault : public ProgramTest {
 protected:
  PeriodicByDefault() {
    program.config.agreement = Agreement::boundaries;  // a thread would sleep for as long
    program.options.max_to_keep = 0;
  }
  ~PeriodicByDefault() override {
    program.handler.reset();
    pass_time(-passed_);
  }
  PeriodicByDefault(const PeriodicByDefault&) = delete;
  PeriodicByDefault& operator=(const PeriodicByDefault&) = delete;

  /// In a step, so that no rank waits for another one meanwhile.
  void pass(std::chrono::seconds time) {
    passed_ += time;
    program.handler->run([&] { pass_time(time); });
    program.run(static_cast<int>(program.handler->total_run_calls()) + 200);
  }
  std::size_t saves() { return program.handler->manager().checkpoints().size(); }

 private:
  std::chrono::seconds passed_{0};
};

TEST_F(PeriodicByDefault, TheFirstComesAfterTenMinutes) {
  program.start();
  pass(std::chrono::seconds(500));
  EXPECT_EQ(saves(), 0U);
  pass(std::chrono::seconds(101));
  ASSERT_EQ(saves(), 1U);
  EXPECT_EQ(program.handler->manager().latest()->reason.kind, SaveReason::Kind::periodic);
  pass(std::chrono::seconds(500));
  EXPECT_EQ(saves(), 1U);
  pass(std::chrono::seconds(200));
  EXPECT_EQ(saves(), 2U);
}

TEST_F(PeriodicByDefault, ASaveOfTheProgramCounts) {
  program.start();
  pass(std::chrono::seconds(500));
  program.handler->manager().save(10);
  pass(std::chrono::seconds(500));
  EXPECT_EQ(saves(), 1U);
  pass(std::chrono::seconds(101));
  EXPECT_EQ(saves(), 2U);
}

TEST_F(PeriodicByDefault, ZeroIsNone) {
  program.config.save_every = std::chrono::milliseconds(0);
  program.start();
  pass(std::chrono::seconds(5000));
  EXPECT_EQ(saves(), 0U);
}

TEST_F(PeriodicByDefault, NoneWhereStepsAreCounted) {
  program.config.save_every_steps = 100'000;
  program.start();
  pass(std::chrono::seconds(5000));
  EXPECT_EQ(saves(), 0U);
}

}  // namespace
}  // namespace reprieve::test
