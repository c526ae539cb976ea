// SPDX-License-Identifier: BSD-3-Clause
// The power goes at random moments: what had been reported as committed is there after the next boot, and every
// checkpoint that is there is valid. Without fsync data must be lost, else these tests prove nothing.
// REPRIEVE_POWER_CUTS sets how many cuts for each file system, REPRIEVE_SEED which ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

#include "faults/file_systems.hpp"
#include "faults/injector/faulty_calls.hpp"
#include "faults/lives.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// For a program whose fsync does nothing.
const Environment kWithoutFsync{
    {"LD_PRELOAD", std::string(REPRIEVE_LIB_DIR) + "/libfaults_injector.so"},
    {"FAULTY_CALLS", "fsync:" + std::to_string(kSkip) + ":1:" + std::to_string(kAlways) + ":"}};

/// The newest checkpoint that a job has said to be committed, in its log; 0 if there is none.
std::uint64_t reported(const Process& job) {
  std::istringstream lines(job.err());
  std::uint64_t newest = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("] saved ckpt-");
    const auto end = line.find(".h5:");
    if (at != std::string::npos && end != std::string::npos) {  // the last line can be half written
      newest = std::stoull(line.substr(at + std::string("] saved ckpt-").size()));
    }
  }
  return newest;
}

struct Found {
  std::uint64_t newest = 0;
  int corrupt = 0;
};

/// What is in a directory after a cut.
Found look(const fs::path& directory) {
  Found found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("ckpt-") && name.ends_with(".h5")) {
      const auto corruption = storage::verify_file(entry.path());
      found.corrupt += corruption.empty() ? 0 : 1;
      if (corruption.empty()) {
        found.newest = std::max<std::uint64_t>(found.newest, std::stoull(name.substr(5)));
      } else {
        std::cout << name << ": " << corruption.front().region << " " << corruption.front().problem << '\n';
      }
    }
  }
  return found;
}

struct Figures {
  int cuts = 0;
  int lost = 0;
  int corrupt = 0;
};

std::ostream& operator<<(std::ostream& stream, const Figures& figures) {
  return stream << figures.cuts << " cuts, " << figures.lost << " lost, " << figures.corrupt << " corrupt";
}

class PowerCut : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string why = why_no_mounts({"mount", "losetup", "mkfs." + GetParam()});
    if (!why.empty()) {
      GTEST_SKIP() << why;
    }
  }

  /// Waits until a job has committed something that was not there before, and then some time more.
  void let_it_save(Process& job, std::uint64_t before) {
    ASSERT_TRUE(wait_until([&] { return reported(job) > before || !job.running(); }, 120s));
    ASSERT_TRUE(job.running()) << job.out() << job.err();
    std::this_thread::sleep_for(std::chrono::microseconds(random(100'000)));
  }

  void count(const Found& found, std::uint64_t promised) {
    ++figures_.cuts;
    figures_.lost += found.newest < promised ? 1 : 0;
    figures_.corrupt += found.corrupt;
  }

  int random(int limit) { return std::uniform_int_distribution(0, limit - 1)(random_); }

  /// Cuts the power of a file system of its own, again and again, while a job saves there.
  void cut_file_system(int ranks, int cuts, const Environment& environment = {}) {
    const Image image(GetParam(), least_size_mb(GetParam()));
    Mount mounted(GetParam(), image.file(), "loop");
    Lives lives(ranks, mounted.path());
    const std::vector<std::string> modes{"recycle", "files", "background"};
    std::uint64_t before = 0;
    for (int i = 0; i < cuts && !HasFailure(); ++i) {
      std::uint64_t promised = 0;
      {
        const Life life = lives.start(modes[static_cast<std::size_t>(i) % modes.size()], environment);
        let_it_save(life.job(), before);
        promised = reported(life.job());
        cut_power(mounted.path(), i % 2 == 0 ? Cut::drop_all : Cut::keep_log);
      }
      mounted.again();
      const Found found = look(lives.directory());
      count(found, promised);
      before = found.newest;
    }
    if (environment.empty()) {
      lives.expect_same_end();
    }
  }

  /// Looks at what a disk would hold after a cut, again and again, while a job saves there.
  void cut_disk(int cuts, const Environment& environment = {}) {
    const FaultyDisk disk(GetParam());
    const TemporaryDirectory images("/var/tmp");
    Lives lives(2, disk.path());
    const auto inside = fs::relative(lives.directory(), disk.path());
    const Life life = lives.start("recycle", environment);
    for (int i = 0; i < cuts && !HasFailure(); ++i) {
      let_it_save(life.job(), reported(life.job()));
      const std::uint64_t promised = reported(life.job());
      const std::vector<int> percents{0, 10, 50, 90};
      disk.cut(static_cast<unsigned>(i), percents[static_cast<std::size_t>(i) % percents.size()], images / "image");
      const Mount left(GetParam(), images / "image", GetParam() == "xfs" ? "loop,nouuid" : "loop");
      count(look(left.path() / inside), promised);
    }
  }

  std::mt19937 random_{static_cast<unsigned>(count_from("REPRIEVE_SEED", 1))};
  Figures figures_;
};

TEST_P(PowerCut, OfAFileSystemLosesNothing) {
  const int cuts = count_from("REPRIEVE_POWER_CUTS", 20);
  cut_file_system(1, cuts - cuts / 4);
  cut_file_system(2, cuts / 4);
  std::cout << "power cuts, " << GetParam() << ": " << figures_ << '\n';
  EXPECT_EQ(figures_.lost, 0);
  EXPECT_EQ(figures_.corrupt, 0);
  EXPECT_EQ(figures_.cuts, cuts);
}

TEST_P(PowerCut, OfADiskWithTornSectorsLosesNothing) {
  if (!fs::exists(program("faults_disk"))) {
    GTEST_SKIP() << "built without libfuse3";
  }
  const int cuts = count_from("REPRIEVE_POWER_CUTS", 20);
  cut_disk(cuts);
  std::cout << "power cuts of a disk, " << GetParam() << ": " << figures_ << '\n';
  EXPECT_EQ(figures_.lost, 0);
  EXPECT_EQ(figures_.corrupt, 0);
  EXPECT_EQ(figures_.cuts, cuts);
}

TEST_P(PowerCut, WithoutFsyncLosesCheckpoints) {
  for (int i = 0; i < 6 && figures_.lost == 0; ++i) {
    cut_file_system(1, 1, kWithoutFsync);
  }
  std::cout << "power cuts without fsync, " << GetParam() << ": " << figures_ << '\n';
  EXPECT_GT(figures_.lost, 0);
}

TEST_P(PowerCut, OfADiskWithoutFsyncLosesCheckpoints) {
  if (!fs::exists(program("faults_disk"))) {
    GTEST_SKIP() << "built without libfuse3";
  }
  cut_disk(6, kWithoutFsync);
  std::cout << "power cuts of a disk without fsync, " << GetParam() << ": " << figures_ << '\n';
  EXPECT_GT(figures_.lost, 0);
}

INSTANTIATE_TEST_SUITE_P(Faults, PowerCut, testing::Values("ext4", "xfs"), [](const auto& type) { return type.param; });

}  // namespace
}  // namespace reprieve::test
