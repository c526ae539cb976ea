// SPDX-License-Identifier: BSD-3-Clause
// Disks that are full or read-only, quotas, limits of the process, a directory that vanishes: one clear error on all
// ranks, no old checkpoint lost, and the next save works once there is room again.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "faults/file_systems.hpp"
#include "faults/lives.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kStateBytes = 4U << 20U;  // of two ranks; a little less than what they have

/// A program that does what it is told, one thing at a time.
class ByOrder {
 public:
  explicit ByOrder(const fs::path& directory, bool reserve = false)
      : job_({.ranks = 2,
              .arguments = {program("faults_by_order"), orders_.path(), directory, reserve ? "reserve" : ""}}) {}

  /// What came of the opening of the directory.
  [[nodiscard]] std::string opened() { return answer(0); }

  /// Waits for it.
  [[nodiscard]] bool has_ended() {
    return wait_until([&] { return !job_.running(); }, 60s);
  }

  std::string operator()(const std::string& order) {
    const fs::path file = orders_ / std::to_string(++given_);
    std::ofstream(fs::path(file).concat(".new")) << order << '\n';
    fs::rename(fs::path(file).concat(".new"), file);
    return answer(given_);
  }

 private:
  std::string answer(std::size_t number) {
    std::vector<std::string> lines;
    const bool came = wait_until(
        [&] {
          lines.clear();
          std::istringstream stream(job_.out());
          for (std::string line; std::getline(stream, line) && !stream.eof();) {
            lines.push_back(line);
          }
          return lines.size() > number || !job_.running();
        },
        60s);
    EXPECT_TRUE(came) << "hangs\n" << job_.err();
    return lines.size() > number ? lines[number] : "nothing: " + job_.err();
  }

  TemporaryDirectory orders_;
  std::size_t given_ = 0;
  Mpirun job_;
};

/// Takes all the space that there is but @p left bytes.
class Filler {
 public:
  Filler(const fs::path& directory, std::uint64_t left) : file_(directory / "filler") {
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_GE(descriptor, 0);
    off_t size = 0;
    for (off_t piece = off_t{64} << 20U; piece >= 1024;) {
      if (::fallocate(descriptor, 0, size, piece) == 0) {
        size += piece;
      } else {
        piece /= 2;
      }
    }
    EXPECT_GT(size, static_cast<off_t>(left));
    EXPECT_EQ(::ftruncate(descriptor, size - static_cast<off_t>(left)), 0);
    EXPECT_EQ(::fsync(descriptor), 0);
    ::close(descriptor);
  }
  ~Filler() {
    std::error_code gone;
    fs::remove(file_, gone);
  }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;

 private:
  fs::path file_;
};

class NoSpace : public testing::Test {
 protected:
  /// Mounts a small file system of that type. False if that is not possible here: then the test is skipped.
  bool mount(const std::string& type, const std::string& options = "loop") {
    std::vector<std::string> programs{"mount"};
    if (type != "tmpfs") {
      programs.push_back("mkfs." + type);
    }
    why_not_ = why_no_mounts(programs);
    if (!why_not_.empty()) {
      return false;
    }
    if (type == "tmpfs") {
      mounted_ = std::make_unique<Mount>(type, "none", options);
    } else {
      image_ = std::make_unique<Image>(type, least_size_mb(type));
      mounted_ = std::make_unique<Mount>(type, image_->file(), options);
    }
    run_ = mounted_->path() / "run";
    return true;
  }

  void expect_checkpoints(const std::vector<std::uint64_t>& numbers) const {
    std::vector<std::uint64_t> found;
    for (const auto& entry : fs::directory_iterator(run_)) {
      const std::string name = entry.path().filename().string();
      EXPECT_NE(name, ".chieftemp");
      if (name.starts_with("ckpt-") && name.ends_with(".h5")) {
        found.push_back(std::stoull(name.substr(5)));
        EXPECT_TRUE(storage::verify_file(entry.path()).empty()) << name;
      }
    }
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, numbers);
  }

  std::string why_not_;
  std::unique_ptr<Image> image_;
  std::unique_ptr<Mount> mounted_;
  fs::path run_;
};

#define REPRIEVE_NEEDS_MOUNT(...)   \
  if (!mount(__VA_ARGS__)) {        \
    GTEST_SKIP() << this->why_not_; \
  }                                 \
  static_assert(true, "a semicolon follows")

class FullDisk : public NoSpace, public testing::WithParamInterface<std::string> {
 protected:
  [[nodiscard]] static std::string options() { return GetParam() == "tmpfs" ? "size=40m" : "loop"; }
};

/// Before a byte is written: the space is asked for first.
TEST_P(FullDisk, IsToldWithNeededAndAvailableBytes) {
  REPRIEVE_NEEDS_MOUNT(GetParam(), options());
  ByOrder job(run_);
  EXPECT_EQ(job.opened(), "done");
  EXPECT_EQ(job("save 1"), "done");
  {
    const Filler filler(mounted_->path(), 1U << 20U);
    const std::string answer = job("save 2");
    EXPECT_THAT(answer, StartsWith("error no_space cannot allocate"));
    std::smatch numbers;
    ASSERT_TRUE(
        std::regex_search(answer, numbers, std::regex("\\((\\d+) bytes and .* available\\); (\\d+) bytes needed")))
        << answer;
    EXPECT_LT(std::stoull(numbers[1]), kStateBytes);
    EXPECT_GT(std::stoull(numbers[2]), kStateBytes);
    expect_checkpoints({1});
    EXPECT_EQ(job("restore"), "done");
  }
  EXPECT_EQ(job("save 3"), "done");
  expect_checkpoints({1, 3});
  EXPECT_EQ(job("quit"), "done");
}

/// To the last byte: nothing at all can be allocated any more.
TEST_P(FullDisk, AReserveHasRoomForTheLastSave) {
  REPRIEVE_NEEDS_MOUNT(GetParam(), options());
  ByOrder job(run_, true);
  EXPECT_EQ(job.opened(), "done");
  const Filler filler(mounted_->path(), 0);
  EXPECT_EQ(job("save 1"), "done");
  EXPECT_EQ(job("quit"), "done");
  EXPECT_TRUE(job.has_ended()) << "only then it has tidied up";
  expect_checkpoints({1});
  {
    ByOrder next(run_);
    EXPECT_EQ(next("restore"), "done");
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, FullDisk, testing::Values("tmpfs", "ext4", "xfs"),
                         [](const auto& type) { return type.param; });

TEST_F(NoSpace, OutOfInodes) {
  REPRIEVE_NEEDS_MOUNT("tmpfs", "size=40m,nr_inodes=40");
  ByOrder job(run_);
  EXPECT_EQ(job("save 1"), "done");
  std::vector<fs::path> fillers;
  while (true) {
    const fs::path file = mounted_->path() / std::to_string(fillers.size());
    if (!std::ofstream(file)) {
      break;
    }
    fillers.push_back(file);
  }
  EXPECT_THAT(job("save 2"), AllOf(StartsWith("error no_space"), HasSubstr(" 0 inodes available")));
  expect_checkpoints({1});
  std::for_each(fillers.begin(), fillers.end(), [](const fs::path& file) { fs::remove(file); });
  EXPECT_EQ(job("save 3"), "done");
  expect_checkpoints({1, 3});
}

TEST_F(NoSpace, OverQuota) {
  REPRIEVE_NEEDS_MOUNT("btrfs");
  run_program({"btrfs", "quota", "enable", mounted_->path()});
  run_program({"btrfs", "subvolume", "create", run_.string()});
  run_program({"btrfs", "qgroup", "limit", "7M", run_.string()});
  ByOrder job(run_);
  EXPECT_EQ(job("save 1"), "done");
  EXPECT_THAT(job("save 2"), AllOf(StartsWith("error no_space"), HasSubstr("Disk quota exceeded")));
  expect_checkpoints({1});
  run_program({"btrfs", "qgroup", "limit", "none", run_.string()});
  EXPECT_EQ(job("save 3"), "done");
  expect_checkpoints({1, 3});
}

class ReadOnly : public NoSpace {
 protected:
  /// What is written there is an error that ext4 takes for one of its disk.
  [[nodiscard]] fs::path error_trigger() const {
    const std::string device = run_program({"findmnt", "-n", "-o", "SOURCE", mounted_->path()});
    const std::string name = fs::path(device.substr(0, device.find('\n'))).filename();
    return fs::path("/sys/fs/ext4") / name / "trigger_fs_error";
  }
};

TEST_F(ReadOnly, InMidWrite) {
  REPRIEVE_NEEDS_MOUNT("ext4", "loop,errors=remount-ro");
  Lives lives(2, mounted_->path());
  std::mt19937 random(1);
  for (int i = 0; i < 4; ++i) {
    const fs::path trigger = error_trigger();  // another one after each mount
    if (!fs::exists(trigger)) {
      GTEST_SKIP() << "no " << trigger;
    }
    {
      const Life life = lives.start("recycle");
      ASSERT_TRUE(wait_until([&] { return life.job().err().find("saved ckpt-") != std::string::npos; }, 60s));
      std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(0, 50)(random)));
      std::ofstream(trigger) << "1";
      EXPECT_EQ(life.job().wait(60s), 3) << life.job().err();
      EXPECT_THAT(life.job().err(), ContainsRegex("faults_stepper: .*(Read-only file system|Input/output error)"));
    }
    mounted_->again();
  }
  lives.expect_same_end();
}

TEST_F(NoSpace, TheDirectoryVanishes) {
  const TemporaryDirectory temporary("/var/tmp");
  run_ = temporary / "run";
  {
    ByOrder job(run_);
    EXPECT_EQ(job("save 1"), "done");
    fs::remove_all(run_);
    EXPECT_THAT(job("save 2"), AllOf(StartsWith("error io"), HasSubstr("was removed or replaced while in use")));
    fs::create_directory(run_);
    EXPECT_THAT(job("save 3"), HasSubstr("was removed or replaced while in use"));
    EXPECT_EQ(job("quit"), "done");
  }
  ByOrder next(run_);
  EXPECT_EQ(next("save 1"), "done");
  expect_checkpoints({1});
}

TEST_F(NoSpace, TheDirectoryVanishesInMidWrite) {
  std::mt19937 random(1);
  for (int i = 0; i < 4; ++i) {
    Lives lives(2, "/var/tmp");
    const Life life = lives.start(i % 2 == 0 ? "recycle" : "background");
    ASSERT_TRUE(wait_until([&] { return life.job().err().find("saved ckpt-") != std::string::npos; }, 60s));
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(0, 50)(random)));
    std::error_code changes;                                         // files come while others go
    while (fs::exists(lives.directory()) && life.job().running()) {  // the lock file alone would be made again
      fs::remove_all(lives.directory(), changes);
    }
    EXPECT_EQ(life.job().wait(60s), 3) << life.job().err();
    EXPECT_THAT(life.job().err(), HasSubstr("faults_stepper: "));
  }
}

class Limits : public NoSpace, public testing::WithParamInterface<int> {
 protected:
  Limits() { run_ = temporary_ / "run"; }
  const TemporaryDirectory temporary_;
};

TEST_P(Limits, OutOfDescriptors) {
  ByOrder job(run_);
  EXPECT_EQ(job("save 1"), "done");
  const std::string answer = job("starve 2 " + std::to_string(GetParam()));
  EXPECT_THAT(answer, AllOf(StartsWith("error io"), HasSubstr("Too many open files")));
  EXPECT_EQ(job("save 3"), "done");
  expect_checkpoints({1, 3});
}

TEST_P(Limits, FileSize) {
  ByOrder job(run_);
  EXPECT_EQ(job("save 1"), "done");
  EXPECT_EQ(job("limit_size " + std::to_string(GetParam())), "done");
  EXPECT_THAT(job("save 2"), AllOf(StartsWith("error no_space"), HasSubstr("ulimit -f")));
  expect_checkpoints({1});
}

INSTANTIATE_TEST_SUITE_P(Faults, Limits, testing::Values(0, 1),
                         [](const auto& rank) { return "OfRank" + std::to_string(rank.param); });

}  // namespace
}  // namespace reprieve::test
