// SPDX-License-Identifier: BSD-3-Clause
// The signal handler beside handlers of the program, and in forked children. Each test in a process of its own.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "support/child.hpp"
#include "support/process.hpp"
#include "termination/notice_sources.hpp"
#include "termination/platform.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::termination {
namespace {

using namespace std::chrono_literals;

volatile std::sig_atomic_t calls = 0;
struct sigaction before_later {};

void count(int /*signal*/) { calls = calls + 1; }

/// As MPICH does, which calls the handler from before with the number alone.
void count_and_chain(int signal) {
  count(signal);
  before_later.sa_sigaction(signal, nullptr, nullptr);
}

void install_later(int signal) {
  struct sigaction later {};
  later.sa_handler = count_and_chain;
  ::sigaction(signal, &later, &before_later);
}

pid_t fork_to(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(work() ? 0 : 1);
  }
  return child;
}

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

bool is_pending(int signal) { return any_signal_pending({signal}); }

TEST(SignalHandler, StaysBesideAHandlerThatIsInstalledLater) {
  EXPECT_TRUE(test::in_child([] {
    install_signal_handler({SIGTERM});
    ::signal(SIGTERM, count);
    keep_signal_handler({SIGTERM});
    ::raise(SIGTERM);
    return is_pending(SIGTERM) && calls == 1;
  }));
}

TEST(SignalHandler, HearsWhatALaterOnePassesOn) {
  EXPECT_TRUE(test::in_child([] {
    install_signal_handler({SIGTERM});
    install_later(SIGTERM);
    ::raise(SIGTERM);
    return is_pending(SIGTERM) && pending_signal({SIGTERM})->sender == 0 && calls == 1;
  }));
}

TEST(SignalHandler, IsInstalledAgainByTheNextWhoWatches) {
  EXPECT_TRUE(test::in_child([] {
    install_signal_handler({SIGTERM});
    ::signal(SIGTERM, SIG_DFL);
    install_signal_handler({SIGTERM});
    ::raise(SIGTERM);
    return is_pending(SIGTERM);
  }));
}

TEST(SignalHandler, AndALaterOneThatCallsItDoNotCallEachOtherForEver) {
  EXPECT_TRUE(test::in_child([] {
    install_signal_handler({SIGTERM});
    install_later(SIGTERM);
    keep_signal_handler({SIGTERM});
    ::raise(SIGTERM);
    ::raise(SIGTERM);
    return is_pending(SIGTERM) && calls == 2;
  }));
}

TEST(SignalHandler, LeavesWhatTheProgramWantsForItself) {
  EXPECT_TRUE(test::in_child([] {
    install_signal_handler({SIGTERM, SIGUSR2});
    ::signal(SIGUSR2, count);
    ::signal(SIGTERM, SIG_IGN);
    keep_signal_handler({SIGTERM, SIGUSR2});
    ::raise(SIGUSR2);
    ::raise(SIGTERM);
    return !is_pending(SIGUSR2) && !is_pending(SIGTERM) && calls == 1;
  }));
}

TEST(SignalHandler, ComesBackWhereTheDefaultActionWasSet) {
  EXPECT_TRUE(test::in_child([] {
    install_signal_handler({SIGTERM, SIGUSR2});
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGUSR2, SIG_DFL);
    keep_signal_handler({SIGTERM, SIGUSR2});
    ::raise(SIGTERM);
    ::raise(SIGUSR2);
    return is_pending(SIGTERM) && is_pending(SIGUSR2);
  }));
}

TEST(SignalHandler, GivesBackNothingThatIsNotItsOwn) {
  EXPECT_TRUE(test::in_child([] {
    install_signal_handler({SIGTERM, SIGUSR1});
    ::signal(SIGTERM, count);
    uninstall_signal_handler();
    ::raise(SIGTERM);
    return calls == 1 && !is_taken(SIGUSR1);
  }));
}

TEST(SignalHandler, HearsWhatTheProgramHasBlocked) {
  EXPECT_TRUE(test::in_child([] {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    SourceSettings settings;
    settings.signals = {SIGTERM};
    const NoticeSources sources(settings);
    ::kill(::getpid(), SIGTERM);
    return test::wait_until([&] { return sources.any(); }, 60s);
  }));
}

TEST(SignalHandler, OfAWarningIsForProgramsWithoutOneOfTheirOwn) {
  EXPECT_TRUE(test::in_child([] {
    const auto all = free_signals_of(Platform::slurm);
    ::signal(SIGUSR2, count);
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGTERM, count);
    return all == std::vector{SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGINT} &&
           free_signals_of(Platform::slurm) == std::vector{SIGTERM, SIGUSR1, SIGXCPU};
  }));
}

/// A rank with a forked worker, which both wait for their end.
class ForkedWorker : public ::testing::Test {
 protected:
  ForkedWorker() {
    EXPECT_EQ(::pipe(ends_.data()), 0);
    rank_ = fork_to([this] {
      install_signal_handler({SIGTERM});
      const pid_t worker = fork_to([] {
        std::this_thread::sleep_for(60s);
        return true;
      });
      if (::write(ends_[1], &worker, sizeof worker) != sizeof worker) {
        return false;
      }
      while (!is_pending(SIGTERM)) {
        std::this_thread::sleep_for(1ms);
      }
      ::kill(worker, SIGTERM);
      const int status = status_of(worker);
      return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
    });
    EXPECT_EQ(::read(ends_[0], &worker_, sizeof worker_), ssize_t{sizeof worker_});
    while (!worker_lives()) {  // it has its number before it runs
      std::this_thread::sleep_for(1ms);
    }
  }
  ~ForkedWorker() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  ForkedWorker(const ForkedWorker&) = delete;
  ForkedWorker& operator=(const ForkedWorker&) = delete;

  /// It sleeps, and is not dead and waited for.
  [[nodiscard]] bool worker_lives() const {
    return test::read_text("/proc/" + std::to_string(worker_) + "/stat").find(") S ") != std::string::npos;
  }

  std::array<int, 2> ends_{};
  pid_t rank_ = 0;
  pid_t worker_ = 0;
};

TEST_F(ForkedWorker, DoesNotDieOfASignalToTheWholeJob) {
  ::kill(worker_, SIGTERM);
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(worker_lives());
  ::kill(rank_, SIGTERM);
  EXPECT_EQ(status_of(rank_), 0) << "its own rank ends it";
}

/// A sender outside of the container of this process has the number 0 there.
TEST_F(ForkedWorker, DoesNotDieOfASignalFromOutsideOfItsContainer) {
  siginfo_t info{};
  info.si_signo = SIGTERM;
  info.si_code = SI_QUEUE;
  ASSERT_EQ(::syscall(SYS_rt_sigqueueinfo, worker_, SIGTERM, &info), 0);
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(worker_lives());
  ::kill(rank_, SIGTERM);
  EXPECT_EQ(status_of(rank_), 0) << "its own rank ends it";
}

TEST_F(ForkedWorker, DiesOfItWhenTheRankIsGone) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // this process becomes its parent then
  ::kill(rank_, SIGKILL);
  static_cast<void>(status_of(rank_));
  EXPECT_TRUE(worker_lives());
  ::kill(worker_, SIGTERM);
  const int status = status_of(worker_);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

}  // namespace
}  // namespace reprieve::termination
