// SPDX-License-Identifier: BSD-3-Clause
// What a drill sees of processes from outside, with real ones.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "core/run_record.hpp"
#include "supervisor/processes.hpp"

namespace reprieve::supervisor {
namespace {

using namespace std::chrono_literals;

/// A child that does something, and is killed in the end.
class Child {
 public:
  explicit Child(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ == 0) {
      work();
      ::_exit(0);
    }
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  pid_t pid_;
};

bool within_time(const std::function<bool()>& happened) {
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (!happened()) {  // asked once each time: what has happened may pass again
    if (std::chrono::steady_clock::now() >= limit) {
      return false;
    }
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

void become_sleep(const char* variable, const char* rank) {
  ::setenv(core::kRunDirectoryVariable, variable, 1);
  ::setenv("PMIX_RANK", rank, 1);
  ::execlp("sleep", "sleep", "1000", nullptr);
}

TEST(RunProcesses, LifeAndDeath) {
  const Child child([] { ::pause(); });
  EXPECT_TRUE(lives(child.pid()));
  ASSERT_EQ(::kill(child.pid(), SIGKILL), 0);
  EXPECT_TRUE(within_time([&] { return !lives(child.pid()); })) << "a zombie does not live";
}

TEST(RunProcesses, SignalsThatDoNotEndIt) {
  const Child child([] {
    ::signal(SIGUSR1, SIG_IGN);
    ::signal(SIGUSR2, [](int) {});
    ::signal(SIGTERM, SIG_DFL);
    ::pause();
  });
  EXPECT_TRUE(within_time([&] { return survives(child.pid(), SIGUSR2); }));
  EXPECT_TRUE(survives(child.pid(), SIGUSR1));
  EXPECT_FALSE(survives(child.pid(), SIGTERM));
}

TEST(RunProcesses, WriteThatNobodyReads) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Child blocked([&] {
    ::dup2(pipe[1], STDOUT_FILENO);
    const std::array<char, 4096> text{};
    while (::write(STDOUT_FILENO, text.data(), text.size()) > 0) {
    }
  });
  const Child silent([] { ::pause(); });
  EXPECT_TRUE(within_time([&] { return writes_output(blocked.pid()); }));
  EXPECT_FALSE(writes_output(silent.pid()));
  // Once somebody reads, it continues.
  ASSERT_EQ(::fcntl(pipe[0], F_SETFL, O_NONBLOCK), 0);
  EXPECT_TRUE(within_time([&] {
    std::array<char, 65536> text{};
    while (::read(pipe[0], text.data(), text.size()) > 0) {
    }
    return !writes_output(blocked.pid());
  }));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(RunProcesses, ThoseOfARunByItsDirectory) {
  const Child own([] { become_sleep("/runs/x/1", "3"); });
  const Child nested([] { become_sleep("/runs/x/1/.reprieve-run-y/1", "4"); });
  const Child other([] { become_sleep("/runs/x/10", "5"); });
  const auto find = [](const std::vector<RunProcess>& processes, pid_t pid) {
    const auto found =
        std::find_if(processes.begin(), processes.end(), [&](const RunProcess& each) { return each.pid == pid; });
    return found == processes.end() ? RunProcess{} : *found;
  };
  EXPECT_TRUE(within_time([&] {
    const auto all = processes_of_run("/runs/x/1");
    return find(all, own.pid()).rank == 3 && find(all, nested.pid()).rank == 4 && find(all, other.pid()).rank == 5;
  })) << "all are children of this process";
  // Seen from another process they are told apart by their environment.
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Child observer([&] {
    const auto all = processes_of_run("/runs/x/1");
    const std::array<bool, 3> seen{find(all, own.pid()).pid != 0, find(all, nested.pid()).pid != 0,
                                   find(all, other.pid()).pid != 0};
    if (::write(pipe[1], seen.data(), sizeof seen) < 0) {
      ::_exit(1);
    }
  });
  std::array<bool, 3> seen{};
  ASSERT_EQ(::read(pipe[0], seen.data(), sizeof seen), ssize_t{sizeof seen});
  EXPECT_THAT(seen, testing::ElementsAre(true, true, false));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace reprieve::supervisor
