// SPDX-License-Identifier: BSD-3-Clause
// Disks that are full or read-only, quotas, limits of the process, a directory that vanishes: one clear error on all
// ranks, no old checkpoint lost, and the next save works once there is room again.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "faults/field_test.hpp"
#include "faults/injector/faulty_calls.hpp"
#include "faults/lives.hpp"
#include "faults/valid_checkpoints.hpp"
#include "storage/read/inspect_file.hpp"
#include "support/process.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

// Small file systems of a test's own, which it fills, breaks and cuts off.

constexpr auto kLimit = 60s;

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// The request of ext4, xfs and others that ends all writing (their header is not part of the kernel's interface).
constexpr unsigned long kShutDown = _IOR('X', 125, std::uint32_t);

bool is_program(const std::string& name) {
  for (const char* folder : {"/usr/sbin", "/sbin", "/usr/bin", "/bin"}) {
    if (fs::exists(fs::path(folder) / name)) {
      return true;
    }
  }
  return false;
}

bool has_private_mounts() {
  static const bool done =
      ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return done;
}

/// Why file systems cannot be mounted here; empty if they can. From then on mounts of this process and of those that it
/// starts are seen by nobody else, and vanish with it.
std::string why_no_mounts(const std::vector<std::string>& programs) {
  if (::geteuid() != 0) {
    return "only root can mount";
  }
  for (const std::string& name : programs) {
    if (!is_program(name)) {
      return "no " + name + " here (apps/install-packages.sh tests)";
    }
  }
  if (::access("/dev/loop-control", R_OK | W_OK) != 0) {
    return "no loop devices here";
  }
  return has_private_mounts() ? "" : "no mount namespace can be made here";
}

/// Runs a program to its end, and returns what it printed. @throws std::runtime_error if it fails
std::string run_program(const std::vector<std::string>& arguments) {
  Process process({.arguments = arguments});
  if (process.wait(kLimit) != 0) {
    throw std::runtime_error(arguments.front() + " failed: " + process.out() + process.err());
  }
  return process.out();
}

/// Something that is mounted while this lives.
class Mount {
 public:
  /// @param options  as for mount(8)
  Mount(const std::string& type, const fs::path& what, const std::string& options)
      : type_(type), what_(what), options_(options) {
    mount();
  }
  ~Mount() {
    try {
      unmount();
    } catch (const std::exception& error) {
      std::cerr << error.what() << '\n';
      ::umount2(path().c_str(), MNT_DETACH);
    }
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  [[nodiscard]] const fs::path& path() const noexcept { return point_.path(); }

  /// Unmounts and mounts again, as at the next boot.
  void again() {
    unmount();
    mount();
  }

 private:
  void mount() { run_program({"mount", "-t", type_, "-o", options_, what_.string(), path().string()}); }
  void unmount() {
    // A process that was killed may have files open for a moment.
    if (!wait_until([this] { return ::umount2(path().c_str(), 0) == 0 || errno != EBUSY; }, kLimit)) {
      throw_errno("cannot unmount " + path().string());
    }
  }

  std::string type_;
  fs::path what_;
  std::string options_;
  TemporaryDirectory point_{"/var/tmp"};
};

/// A file with an empty file system in it.
class Image {
 public:
  /// @param type  ext4, xfs, btrfs
  Image(const std::string& type, std::size_t size_mb, const std::vector<std::string>& mkfs_options = {}) : type_(type) {
    std::ofstream(file_).close();
    fs::resize_file(file_, size_mb << 20U);
    run_program(joined(joined({"mkfs." + type, "-q"}, mkfs_options), {file_.string()}));
  }

  [[nodiscard]] const fs::path& file() const noexcept { return file_; }
  [[nodiscard]] const std::string& type() const noexcept { return type_; }

 private:
  std::string type_;
  TemporaryDirectory directory_{"/var/tmp"};
  fs::path file_ = directory_ / "image";
};

/// Least size, in MB, for a file system of that type.
std::size_t least_size_mb(const std::string& type) { return type == "xfs" ? 320 : (type == "btrfs" ? 128 : 64); }

enum class Cut : std::uint32_t {
  keep_log = 1,  ///< what is in the log of the file system is written out first
  drop_all = 2,  ///< nothing more is written
};

/// The power goes: the file system does not write any more.
void cut_power(const fs::path& mounted, Cut how) {
  const int descriptor = ::open(mounted.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    throw_errno("cannot open " + mounted.string());
  }
  auto mode = static_cast<std::uint32_t>(how);
  const int result = ::ioctl(descriptor, kShutDown, &mode);
  const int error_number = errno;
  ::close(descriptor);
  if (result != 0) {
    errno = error_number;
    throw_errno("cannot shut " + mounted.string() + " down");
  }
}

/// A disk that loses what was not flushed (faults_disk), with a file system that is mounted.
class FaultyDisk {
 public:
  explicit FaultyDisk(const std::string& type) {
    daemon_ = std::make_unique<Process>(
        Command{.arguments = {program("faults_disk"), std::to_string(least_size_mb(type)), point_.path().string()}});
    const fs::path disk = point_ / "disk";
    if (!wait_until([&] { return fs::exists(disk) || !daemon_->running(); }, kLimit) || !daemon_->running()) {
      throw std::runtime_error("faults_disk does not start: " + daemon_->err());
    }
    run_program({"mkfs." + type, "-q", disk.string()});
    mounted_ = std::make_unique<Mount>(type, disk, "loop");
  }
  ~FaultyDisk() {
    mounted_.reset();
    if (!wait_until([this] { return ::umount2(point_.path().c_str(), 0) == 0 || errno != EBUSY; }, kLimit)) {
      ::umount2(point_.path().c_str(), MNT_DETACH);
    }
    static_cast<void>(daemon_->wait(kLimit));
  }
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  [[nodiscard]] const fs::path& path() const { return mounted_->path(); }

  /// What the disk would hold if the power went now, in @p file.
  void cut(unsigned seed, int percent, const fs::path& file) const {
    const std::string line = "cut " + std::to_string(seed) + " " + std::to_string(percent) + " " + file.string();
    const int control = ::open((point_ / "control").c_str(), O_WRONLY | O_CLOEXEC);
    const ssize_t written = control < 0 ? -1 : ::write(control, line.data(), line.size());
    const int error_number = errno;
    ::close(control);
    if (written != static_cast<ssize_t>(line.size())) {
      throw std::system_error(error_number, std::generic_category(), "cannot cut the power of the disk");
    }
  }

 private:
  TemporaryDirectory point_{"/var/tmp"};
  std::unique_ptr<Process> daemon_;
  std::unique_ptr<Mount> mounted_;
};

constexpr std::uint64_t kStateBytes = 4U << 20U;  // of two ranks; a little less than what they have

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
    EXPECT_FALSE(fs::exists(run_ / ".chieftemp"));
    EXPECT_EQ(expect_valid_checkpoints(run_), numbers);
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
TEST_P(FullDisk, IsReportedWithNeededAndAvailableBytes) {
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
  ByOrder job(run_, "reserve");
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

TEST_F(NoSpace, PeriodicSavesFailAndTheRunContinues) {
  REPRIEVE_NEEDS_MOUNT("tmpfs", "size=60m");
  Mpirun job(
      {.ranks = 2,
       .arguments = {program("e2e_field"), run_.string(), "400", "5", "save_every=20", "elements=100000", "keep=1000"},
       .environment = {{"REPRIEVE_TERMINATION_SAVE_ATTEMPTS", "1000"}}});
  const auto says = [&job](const std::string& text) {
    return wait_until([&] { return (job.out() + job.err()).find(text) != std::string::npos || !job.running(); }, 60s);
  };
  ASSERT_TRUE(says("step 30\n"));
  {
    const Filler filler(mounted_->path(), 4096);
    EXPECT_TRUE(says("in a row that failed"));
    Process status({.arguments = {program("reprieve"), "status", run_.string()}});
    EXPECT_EQ(status.wait(60s), 0);
    EXPECT_THAT(status.out(), AllOf(HasSubstr("running"), HasSubstr("in a row failed, and the run continues")));
  }
  EXPECT_EQ(job.wait(60s), 0) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("the next interval tries again"));
  const auto checkpoints = checkpoints_in(run_);
  EXPECT_TRUE(checkpoints.contains(20));
  EXPECT_TRUE(checkpoints.contains(380)) << "there was room again\n" << job.err();
  EXPECT_LT(checkpoints.size(), 20U) << "of 20 to 380, and that of finish()";
  expect_valid_checkpoints(run_);
}

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
      EXPECT_THAT(life.job().err(), ContainsRegex("e2e_field: .*(Read-only file system|Input/output error)"));
    }
    mounted_->again();
  }
  lives.expect_same_end();
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
    EXPECT_THAT(life.job().err(), HasSubstr("e2e_field: "));
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

// The power goes at random moments: what had been reported as committed is there after the next boot, and every
// checkpoint that is there is valid. Without fsync data must be lost, else these tests prove nothing.
// REPRIEVE_POWER_CUTS sets how many cuts for each file system, REPRIEVE_SEED which ones.

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
  for (const auto& [number, file] : checkpoints_in(directory)) {
    const auto corruption = storage::verify_file(file);
    if (corruption.empty()) {
      found.newest = number;
    } else {
      ++found.corrupt;
      std::cout << file << ": " << corruption.front().region << " " << corruption.front().problem << '\n';
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
  const int cuts = count_from("REPRIEVE_POWER_CUTS", 8);
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
  const int cuts = count_from("REPRIEVE_POWER_CUTS", 8);
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
