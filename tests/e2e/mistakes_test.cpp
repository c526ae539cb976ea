// SPDX-License-Identifier: BSD-3-Clause
// What a program that catches nothing prints, on many ranks, when its user makes a mistake: one report, not one for
// each rank.

#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "e2e/limits.hpp"
#include "support/process.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kManyRanks = 16;
/// With the lines of the launcher, which has its own: the one of Open MPI 5 has no option to be quiet.
constexpr std::ptrdiff_t kMostLines = 12;
constexpr std::ptrdiff_t kMostLinesOfOpenMpi5 = 20;

class Mistake : public testing::Test {
 protected:
  struct Result {
    std::optional<int> code;
    std::string err;
  };

  [[nodiscard]] Result run(int ranks, const std::string& mistake = "") const {
    Mpirun job({.ranks = ranks,
                .arguments = {program("e2e_unhandled"), directory_.string(), mistake},
                .mpirun_options = quiet_,
                .environment = environment_,
                .directory = files_.path()});
    const auto code = job.wait(kHang);
    std::string err = job.err();
    std::erase(err, '\0');  // Open MPI 5 writes one behind its text
    return {code, std::move(err)};
  }

  /// The end of a program with a mistake, after a run without.
  void expect_one_report(const std::string& mistake, const std::string& report) const {
    const Result result = run(kManyRanks, mistake);
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(report));
    const std::string begin = "\nreprieve: ";
    const std::string text = "\n" + result.err;
    const auto at = text.find(begin);
    ASSERT_NE(at, std::string::npos) << result.err;
    EXPECT_EQ(text.find(begin, at + 1), std::string::npos) << "told twice:\n" << result.err;
    EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'),
              quiet_.empty() ? kMostLinesOfOpenMpi5 : kMostLines)
        << result.err;
  }

  void make_checkpoints(int ranks = kManyRanks) const {
    const Result good = run(ranks);
    ASSERT_EQ(good.code, 0) << good.err;
  }

  TemporaryDirectory files_;
  std::vector<std::string> quiet_ = has_open_mpi_4() ? std::vector<std::string>{"-q"} : std::vector<std::string>{};
  Environment environment_;
  fs::path directory_ = files_.path() / "checkpoints";
};

TEST_F(Mistake, AnotherNameShapeOrType) {
  make_checkpoints();
  expect_one_report("name", "add_former_name");
  expect_one_report("shape", "registered with the shape [144], stored with [128]");
  expect_one_report("type", "elements of type float32, stored with float64");
}

TEST_F(Mistake, AnotherNumberOfRanksForAValueOfEachRank) {
  make_checkpoints(3);
  expect_one_report("", "start on 3 ranks");
}

TEST_F(Mistake, ANameThatIsRegisteredTwice) { expect_one_report("twice", "'seed' is registered already"); }

TEST_F(Mistake, ADirectoryThatIsAFile) {
  std::ofstream(directory_) << "a file\n";
  expect_one_report("", "Not a directory");
}

/// A loop that an error has ended looks like one that is done.
/// Such a mount shows no file that is open for writing.
TEST_F(Mistake, ACloudThatIsMountedWithoutACacheOfWrites) {
  const fs::path mounted = files_.path() / "mounted";
  fs::create_directory(mounted);
  const fs::path cloud = files_.path() / "cloud";
  fs::create_directories(cloud / "bucket");
  // By a shell, which ends where there is no rclone.
  Process mount({.arguments = {"sh", "-c", "exec rclone mount :local:" + cloud.string() + " " + mounted.string()}});
  if (!wait_until([&] { return fs::exists(mounted / "bucket") || mount.wait(0ms); }, 10s) || mount.wait(0ms)) {
    GTEST_SKIP() << "rclone mounts nothing here: " << mount.err();
  }
  directory_ = mounted / "checkpoints";
  const Result result = run(2);
  mount.send(SIGTERM);
  EXPECT_TRUE(mount.wait(kHang)) << mount.err();
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 0 does not see the lock file"));
}

TEST_F(Mistake, ALoopInCThatAsksForNoStatus) {
  Mpirun job({.ranks = 2, .arguments = {program("e2e_no_status"), directory_.string()}, .mpirun_options = quiet_});
  EXPECT_EQ(job.wait(kHang), 1) << job.out() << job.err();
  EXPECT_THAT(job.err(), HasSubstr("the handler ended with an error that all ranks received"));
  EXPECT_EQ(job.out(), "");
}

TEST_F(Mistake, ADirectoryThatAnotherRunUses) {
  make_checkpoints(2);
  Process other({.arguments = {"flock", directory_ / ".reprieve.lock", "sh", "-c", "echo held; exec sleep 1000"}});
  ASSERT_TRUE(wait_until([&] { return other.out() == "held\n"; }, kHang)) << other.err();
  environment_["REPRIEVE_CHECKPOINTS_LOCK_TIMEOUT_S"] = "0.5";
  expect_one_report("", "is in use by the run of process");
}

TEST_F(Mistake, AStepThatThrows) { expect_one_report("step", "the pressure is negative"); }

/// It is of no concern to the library, which changes nothing there.
TEST_F(Mistake, AnExceptionOfTheProgramsOwn) {
  const Result result = run(2, "outside");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("the mesh is empty"));
}

/// The state is saved: the job is started again, whatever the program forgot.
TEST_F(Mistake, APreemptionThatNobodyCatches) {
  const Result result = run(2, "preempted");
  EXPECT_EQ(result.code, 42) << result.err;
}

}  // namespace
}  // namespace reprieve::test
