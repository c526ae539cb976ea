// SPDX-License-Identifier: BSD-3-Clause
// Opening a directory: arguments, the lock, and directories that cannot be used.

#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "manager/directory_lock.hpp"
#include "manager_fixture.hpp"
#include "support/child.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class OpenTest : public ManagerTest {
 protected:
  SeenError error_of_opening(const fs::path& path, const ManagerOptions& options = {}) {
    return same_error_on_all_ranks([&] { CheckpointManager(MPI_COMM_WORLD, state.checkpoint, path, options); });
  }

  static ManagerOptions impatient() { return {.lock_timeout = 50ms}; }
};

TEST_F(OpenTest, MakesTheDirectory) {
  const CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, temporary / "a");
  EXPECT_TRUE(fs::is_directory(temporary / "a"));
  EXPECT_EQ(manager.directory(), temporary / "a");
}

/// A start in a misspelt directory would begin again, without a word.
TEST_F(OpenTest, FoldersAboveItAreNotMade) {
  EXPECT_THAT(error_of_opening(temporary / "a/b/c"),
              is_error(ErrorCode::config, "the folder " + (temporary / "a/b").string(), "mkdir -p"));
  EXPECT_FALSE(fs::exists(temporary / "a"));
}

TEST_F(OpenTest, ThePathIsAbsoluteAndWithoutASlashAtTheEnd) {
  const fs::path before = fs::current_path();
  fs::current_path(temporary.path());
  CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, "./x/../run/");
  fs::current_path(before);
  EXPECT_EQ(manager.directory(), directory);
  manager.save(1);
  EXPECT_EQ(names(), Names{"ckpt-1.h5"});
}

TEST_F(OpenTest, RanksMayWriteThePathInSeveralWays) {
  const fs::path mine = world_rank() == 0 ? directory : temporary / "./run/";
  EXPECT_EQ(CheckpointManager(MPI_COMM_WORLD, state.checkpoint, mine).directory(), directory);
}

TEST_F(OpenTest, TheWorkingDirectoryOfRank0Counts) {
  on_rank_0([&] { fs::create_directory(temporary / "elsewhere"); });
  const fs::path before = fs::current_path();
  fs::current_path(world_rank() == 0 ? temporary.path() : temporary / "elsewhere");
  const CheckpointManager manager(MPI_COMM_WORLD, state.checkpoint, "run");
  fs::current_path(before);
  EXPECT_EQ(manager.directory(), directory);
}

TEST_F(OpenTest, BadOptionsAreConfigErrors) {
  EXPECT_EQ(error_of_opening("").code, ErrorCode::config);
  EXPECT_EQ(error_of_opening("/").code, ErrorCode::config);
  EXPECT_EQ(error_of_opening(directory, {.prefix = "a/b"}).code, ErrorCode::config);
  EXPECT_EQ(error_of_opening(directory, {.prefix = ""}).code, ErrorCode::config);
  EXPECT_EQ(error_of_opening(directory, {.keep_every = -1s}).code, ErrorCode::config);
  EXPECT_EQ(error_of_opening(directory, {.lock_timeout = -1ms}).code, ErrorCode::config);
  EXPECT_EQ(error_of_opening(directory, {.lock_timeout = std::chrono::milliseconds::max()}).code, ErrorCode::config);
  EXPECT_EQ(error_of_opening(directory, {.io_timeout = 0ms}).code, ErrorCode::config);
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(OpenTest, DifferentArgumentsAreAUsageErrorOnAllRanks) {
  REPRIEVE_NEEDS_RANKS(2);
  const SeenError options = error_of_opening(directory, {.max_to_keep = world_rank() == 1 ? 4U : 3U});
  EXPECT_EQ(options.code, ErrorCode::usage);
  EXPECT_THAT(options.message, AllOf(HasSubstr("checkpoints.max_to_keep: 3 on rank 0, 4 on rank 1"),
                                     Not(HasSubstr("writer")), Not(HasSubstr("directory"))));
  EXPECT_THAT(error_of_opening(temporary / std::to_string(world_rank())),
              is_error(ErrorCode::usage, "directory: \"" + (temporary / "0").string() + "\" on rank 0"));
  EXPECT_EQ(error_of_opening(directory, {.read_environment = world_rank() != 1}).code, ErrorCode::usage);
}

TEST_F(OpenTest, RanksOfOneValueAreNamedTogether) {
  REPRIEVE_NEEDS_RANKS(3);
  const SeenError error = error_of_opening(directory, {.durable = world_rank() == 0, .recycle = world_rank() < 2});
  const std::string last = std::to_string(world_size() - 1);
  EXPECT_THAT(error.message, HasSubstr("durable: true on rank 0, false on ranks 1-" + last));
  EXPECT_THAT(error.message,
              HasSubstr("recycle: true on rank 0, false on rank" + (world_size() == 3 ? " 2" : "s 2-" + last)));
}

TEST_F(OpenTest, ADirectoryBelowAFileIsAStorageError) {
  on_rank_0([&] { write_text(temporary / "file", "x"); });
  const SeenError error = error_of_opening(temporary / "file/run");
  EXPECT_EQ(error.code, ErrorCode::io);
  EXPECT_EQ(error.origin_rank, 0);
  EXPECT_THAT(error.message, AllOf(HasSubstr((temporary / "file/run").string()), HasSubstr("choose one")));
}

TEST_F(OpenTest, ADirectoryThatTakesNoFilesIsAStorageError) {
  EXPECT_EQ(error_of_opening("/proc/self/fdinfo").origin_rank, 0);
}

/// Root's rights are put away while it lives.
class AsNobody {
 public:
  AsNobody() { EXPECT_EQ(::seteuid(65534), 0); }
  ~AsNobody() { EXPECT_EQ(::seteuid(0), 0); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
};

/// A colleague who may write in the parent has moved the checkpoints away, and put his own in their place.
TEST_F(OpenTest, ADirectoryOfAnotherUserIsRefused) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to play two users";
  }
  open().save(1);
  on_rank_0([&] {
    ASSERT_EQ(::chown(directory.c_str(), 64999, 64999), 0);
    ASSERT_EQ(::chmod(directory.c_str(), 0777), 0);
    ASSERT_EQ(::chmod((directory / ".reprieve.lock").c_str(), 0666), 0);
    ASSERT_EQ(::chmod(temporary.path().c_str(), 0755), 0);
  });
  SeenError refused;
  {
    const AsNobody victim;
    refused = error_of_opening(directory);
  }
  EXPECT_EQ(refused.code, ErrorCode::permission);
  EXPECT_THAT(refused.message, HasSubstr("belongs to user 64999"));
  EXPECT_EQ(names(), Names{"ckpt-1.h5"});
}

TEST_F(OpenTest, ASecondManagerOfTheProgramIsAUsageErrorAtOnce) {
  CheckpointManager first = open();
  first.save(1);
  EXPECT_THAT(error_of_opening(directory), is_error(ErrorCode::usage, directory.string(), "close that one first"));
  EXPECT_EQ(error_of_opening(directory, {.prefix = "other"}).code, ErrorCode::usage);
  first.save(2);  // undisturbed
  EXPECT_EQ(names(), (Names{"ckpt-1.h5", "ckpt-2.h5"}));
}

TEST_F(OpenTest, AManagerCanBeMoved) {
  CheckpointManager first = open();
  CheckpointManager second = std::move(first);
  second.save(1);
  EXPECT_EQ(names(), Names{"ckpt-1.h5"});
  EXPECT_EQ(error_of_opening(directory, impatient()).code, ErrorCode::usage);
}

/// A process of rank 0's that holds the lock as long as this lives.
class OtherRun {
 public:
  explicit OtherRun(const fs::path& directory) {
    const fs::path file = directory / ".reprieve.lock";
    on_rank_0([&] {
      child_.emplace([&] {
        const manager::DirectoryLock lock(file, manager::LockHolder::self("node7", 64), 10s);
        ::pause();
      });
      while (!fs::exists(file) || manager::read_lock_mark(file).empty()) {
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  ~OtherRun() {
    child_.reset();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  OtherRun(const OtherRun&) = delete;
  OtherRun& operator=(const OtherRun&) = delete;

 private:
  std::optional<Child> child_;
};

TEST_F(OpenTest, AnotherRunIsNamed) {
  on_rank_0([&] { fs::create_directory(directory); });
  const OtherRun other(directory);
  EXPECT_THAT(error_of_opening(directory, impatient()), is_error(ErrorCode::locked, "on node7", "64 ranks"));
}

TEST_F(OpenTest, LeftOversOfALivingRunAreNotTouched) {
  on_rank_0([&] { write_text(directory / ".chieftemp/in_use", "x"); });
  const OtherRun other(directory);
  EXPECT_EQ(error_of_opening(directory, impatient()).code, ErrorCode::locked);
  EXPECT_EQ(names(), Names{".chieftemp"});
}

}  // namespace
}  // namespace reprieve::test
