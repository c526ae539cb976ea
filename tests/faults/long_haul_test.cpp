// SPDX-License-Identifier: BSD-3-Clause
// The long haul: a job that is preempted, killed and starved of space again and again, on changing numbers of ranks. At
// the end it must have come to what an undisturbed run comes to, and must have left nothing behind.
//
// REPRIEVE_FAULTS_SECONDS: how long (90 unless it is set); REPRIEVE_FAULTS_SEED: the same disturbances again.

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "faults/field_test.hpp"
#include "faults/lives.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::size_t count_in(const fs::path& directory) {
  std::error_code none;
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory, none), fs::directory_iterator()));
}

/// What one rank holds, to see whether it grows.
struct Resources {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t memory_kib = 0;
};

Resources resources_of(pid_t pid) {
  const fs::path process = "/proc/" + std::to_string(pid);
  Resources resources{count_in(process / "fd"), count_in(process / "task"), 0};
  std::ifstream status(process / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      resources.memory_kib = std::stoul(line.substr(6));
    }
  }
  return resources;
}

/// Takes nearly all space of a file system while it lives.
class Ballast {
 public:
  explicit Ballast(const fs::path& directory) : file_(directory / "ballast") {
    struct statvfs status = {};
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor >= 0 && ::fstatvfs(descriptor, &status) == 0) {
      const auto free = static_cast<off_t>(status.f_bavail * status.f_frsize);
      full_ = ::posix_fallocate(descriptor, 0, std::max<off_t>(4096, free - 64 * 1024)) == 0;
    }
    ::close(descriptor);
  }
  ~Ballast() {
    std::error_code none;
    fs::remove(file_, none);
  }
  Ballast(const Ballast&) = delete;
  Ballast& operator=(const Ballast&) = delete;

 private:
  fs::path file_;
  bool full_ = false;
};

class LongHaul : public FieldTest {
 protected:
  static constexpr std::uint64_t kElements = 50'000;

  LongHaul()
      : seed_(static_cast<unsigned>(
            count_from("REPRIEVE_FAULTS_SEED", static_cast<int>(std::random_device()() % 100'000)))),
        random_(seed_) {
    fs::create_directory(disk_);
    // A small disk of its own, where this user may have one, which is gone with this process.
    mounted_ = ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 &&
               ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               ::mount("none", disk_.c_str(), "tmpfs", 0, "size=16m") == 0;
  }
  ~LongHaul() override {
    if (mounted_) {
      ::umount2(disk_.c_str(), MNT_DETACH);
    }
  }

  [[nodiscard]] int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  [[nodiscard]] std::unique_ptr<Mpirun> start_job(int ranks, int steps) {
    MpiCommand started = command(
        ranks, steps, 10,
        {"save_every=20", "elements=" + std::to_string(kElements), "background=" + std::to_string(below(2)), "keep=2"});
    started.arguments.at(1) = (disk_ / "checkpoints").string();
    return std::make_unique<Mpirun>(started);
  }

  /// Disturbs one start of the job, and waits for its end.
  void disturb(Mpirun& job) {
    if (!job.wait_for_ranks(kLimit)) {
      return;  // it ended by itself
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(below(3000)));
    const auto ranks = job.ranks();
    if (ranks.empty()) {
      return;
    }
    const auto victim = std::next(ranks.begin(), below(static_cast<int>(ranks.size())));
    const int what = below(10);
    if (what < 6) {
      ++counts_["preemptions"];
      ::kill(victim->second, below(2) == 0 ? SIGTERM : SIGUSR1);
    } else if (what < 8 || !mounted_) {
      ++counts_["kills"];
      ::kill(victim->second, SIGKILL);
    } else {
      ++counts_["full disks"];
      const Ballast full(disk_);
      std::this_thread::sleep_for(500ms);
      ::kill(victim->second, SIGTERM);
      std::this_thread::sleep_for(500ms);
    }
  }

  /// Removes what only a dead run leaves, by a start that does nothing, and looks at what is there then.
  void expect_nothing_left() const {
    const std::set<std::string> known{"events.jsonl", ".reprieve.lock", ".reprieve.recycled", ".reprieve.workers",
                                      ".reprieve.directory"};
    for (const auto& entry : fs::directory_iterator(disk_ / "checkpoints")) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(known.contains(name) || (name.starts_with("ckpt-") && name.ends_with(".h5"))) << name;
    }
    for (const auto& entry : fs::directory_iterator(disk_)) {
      EXPECT_EQ(entry.path().filename(), "checkpoints");
    }
  }

  const unsigned seed_;
  std::mt19937 random_;
  const fs::path disk_ = directory_ / "disk";
  bool mounted_ = false;
  std::map<std::string, int> counts_;
};

TEST_F(LongHaul, EndsAsAnUndisturbedRun) {
  const auto end = Clock::now() + std::chrono::seconds(count_from("REPRIEVE_FAULTS_SECONDS", 90));
  SCOPED_TRACE("REPRIEVE_FAULTS_SEED=" + std::to_string(seed_));
  while (Clock::now() < end) {
    const auto job = start_job(1 + below(4), 10'000'000);
    ++counts_["starts"];
    disturb(*job);
    const int code = end_of(*job);
    ++counts_["code " + std::to_string(code)];
    // A preemption, a save that found no space, and the signals themselves, which kill a rank before its main.
    EXPECT_THAT(code, testing::AnyOf(42, 3, 128 + SIGKILL, 128 + SIGTERM, 128 + SIGUSR1)) << job->err();
    if (HasFailure()) {
      break;
    }
  }
  const auto last = start_job(2, 1);  // only to see where it is
  EXPECT_EQ(last->wait(kLimit), 0) << last->err();
  const auto reached = static_cast<int>(newest_checkpoint_in(disk_ / "checkpoints"));
  const auto finish = start_job(3, reached + 50);
  EXPECT_EQ(finish->wait(kLimit), 0) << finish->err();
  EXPECT_EQ(digest_in(finish->out()), digest_of(reached + 50, {"elements=" + std::to_string(kElements)}));
  expect_nothing_left();
  std::cout << "steps " << reached;
  for (const auto& [what, count] : counts_) {
    std::cout << ", " << what << ' ' << count;
  }
  std::cout << std::endl;
}

/// One process that saves over and over, by both ways, for requests and preemptions: it must hold no more at the end
/// than after it has warmed up.
TEST_F(LongHaul, NothingGrows) {
  const auto job = start(2, 10'000'000, 1, {"save_every=5", "keep_running=1000000", "background=1", "elements=20000"});
  wait_for_step(*job, 200);
  const auto ranks = job->ranks();
  ASSERT_EQ(ranks.size(), 2U);
  const auto take = [&] {
    std::map<int, Resources> all;
    for (const auto& [rank, pid] : ranks) {
      all[rank] = resources_of(pid);
    }
    return all;
  };
  const std::map<int, Resources> before = take();
  const auto end = Clock::now() + std::chrono::seconds(count_from("REPRIEVE_FAULTS_SECONDS", 90) / 4);
  while (Clock::now() < end) {
    ASSERT_TRUE(job->send_to_rank(below(2), SIGUSR1)) << job->err();
    std::this_thread::sleep_for(100ms);
  }
  // The moment counts: a save in the background has a thread and files open.
  const bool back = wait_until(
      [&] {
        const auto now = take();
        return std::all_of(now.begin(), now.end(), [&](const auto& rank) {
          const Resources& then = before.at(rank.first);
          return rank.second.descriptors <= then.descriptors && rank.second.threads <= then.threads;
        });
      },
      30s);
  const auto after = take();
  for (const auto& [rank, then] : before) {
    EXPECT_TRUE(back) << "rank " << rank << ": descriptors " << then.descriptors << " -> " << after.at(rank).descriptors
                      << ", threads " << then.threads << " -> " << after.at(rank).threads;
    EXPECT_LT(after.at(rank).memory_kib, then.memory_kib + 20'000) << "rank " << rank;
  }
  std::cout << "saves " << events("save_finished").size() << ", preemptions " << events("notice").size() << std::endl;
  job->send_to_ranks(SIGKILL);
  end_of(*job);
}

}  // namespace
}  // namespace reprieve::test
