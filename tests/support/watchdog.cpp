// SPDX-License-Identifier: BSD-3-Clause
#include "support/watchdog.hpp"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace reprieve::test {
namespace {

constexpr int kStuckExitCode = 3;
constexpr std::chrono::seconds kTimeForOtherRanks{2};

/// The tests send signals to their own process; none of them is for this thread.
void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

Watchdog::Watchdog(int rank, int size, std::chrono::seconds limit)
    : who_("[rank " + std::to_string(rank) + "/" + std::to_string(size) + "]"),
      limit_(limit),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

Watchdog::~Watchdog() = default;

void Watchdog::enter(std::string place) {
  {
    const std::lock_guard lock(mutex_);
    place_ = std::move(place);
    entered_ = Clock::now();
  }
  changed_.notify_all();
}

void Watchdog::rename(std::string place) {
  const std::lock_guard lock(mutex_);
  place_ = std::move(place);
}

void Watchdog::watch(const std::stop_token& stop) {
  block_all_signals();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto entered = entered_;
    const bool moved = changed_.wait_until(lock, stop, entered + limit_, [&] { return entered_ != entered; });
    if (!moved && !stop.stop_requested()) {
      give_up();
    }
  }
}

void Watchdog::give_up() const {
  // One write, below the size that keeps lines of several processes whole, and no buffer that a stuck thread may hold.
  const std::string line = who_ + " stuck " + place_ + " for " + std::to_string(limit_.count()) + " s\n";
  const bool shown = write(STDERR_FILENO, line.data(), line.size()) >= 0;
  std::this_thread::sleep_for(kTimeForOtherRanks);
  _exit(shown ? kStuckExitCode : kStuckExitCode + 1);
}

}  // namespace reprieve::test
