// SPDX-License-Identifier: BSD-3-Clause
// A copy for a save in the background that fits into each rank's share, but not for all ranks together into their
// control group: Linux would promise the memory, and kill a rank when it is used.

#include <unistd.h>

#include <cstdlib>
#include <optional>

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
  const auto rank = static_cast<std::uint64_t>(world_rank());
  const auto size = static_cast<std::uint64_t>(world_size());
  std::vector<double> large(kPart, 1.0);
  state.checkpoint.add_distributed("large", large.data(), {{kPart * size}, {kPart * rank}, {kPart}});
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
  on_chief([&] { fs::remove_all(on_disk); });
}

}  // namespace
}  // namespace reprieve::test
