// The write directories of ranks other than the chief, which runs with neighbouring checkpoint directories share in
// part.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "manager/checkpoint_directory.hpp"
#include "reprieve/error.hpp"
#include "support/temporary_directory.hpp"

namespace reprieve::manager {
namespace {

namespace fs = std::filesystem;

TEST(WriteDirectory, LiesBesideTheCheckpointDirectory) {
  EXPECT_EQ(worker_directory("/data/runs/a", 3), "/data/runs/workertemp_3/a");
}

TEST(WriteDirectory, IsEmptyWhenMadeAndGoneWhenRemoved) {
  const test::TemporaryDirectory temporary;
  const fs::path worker = worker_directory(temporary / "a", 3);
  make_worker_directory(worker);
  std::ofstream(worker / "left behind") << "x";
  make_worker_directory(worker);
  EXPECT_TRUE(fs::is_empty(worker));
  remove_worker_directory(worker);
  EXPECT_TRUE(fs::is_empty(temporary.path()));
  remove_worker_directory(worker);  // twice is harmless
}

TEST(WriteDirectory, ThatOfANeighbourIsNotTouched) {
  const test::TemporaryDirectory temporary;
  make_worker_directory(worker_directory(temporary / "a", 3));
  make_worker_directory(worker_directory(temporary / "b", 3));
  remove_worker_directory(worker_directory(temporary / "a", 3));
  EXPECT_TRUE(fs::is_directory(temporary / "workertemp_3/b"));
}

TEST(WriteDirectory, ALinkInItsPlaceIsReplacedAndNotFollowed) {
  const test::TemporaryDirectory temporary;
  const fs::path victim = temporary / "victim";
  fs::create_directories(victim / "content");
  const fs::path worker = worker_directory(temporary / "a", 3);
  fs::create_directory(worker.parent_path());
  fs::create_directory_symlink(victim, worker);
  make_worker_directory(worker);
  EXPECT_FALSE(fs::is_symlink(worker));
  EXPECT_TRUE(fs::exists(victim / "content"));
}

TEST(WriteDirectory, AParentThatIsAFileIsAnError) {
  const test::TemporaryDirectory temporary;
  std::ofstream(temporary / "workertemp_3") << "x";
  EXPECT_THROW(make_worker_directory(worker_directory(temporary / "a", 3)), StorageError);
}

TEST(WriteDirectory, NeighboursThatRemoveTheSharedParentDoNotDisturb) {
  const test::TemporaryDirectory temporary;
  std::atomic<int> failures = 0;
  const auto make_and_remove = [&](const char* name) {
    const fs::path worker = worker_directory(temporary / name, 3);
    for (int round = 0; round < 300; ++round) {
      try {
        make_worker_directory(worker);
        failures += fs::is_directory(worker) ? 0 : 1;
      } catch (const StorageError&) {
        ++failures;
      }
      remove_worker_directory(worker);
    }
  };
  std::thread other(make_and_remove, "b");
  make_and_remove("a");
  other.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace reprieve::manager
