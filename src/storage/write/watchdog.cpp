// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/watchdog.hpp"

#include <unistd.h>

#include <cstdlib>

#include "core/signals_blocked.hpp"

namespace reprieve::storage {

namespace {

[[noreturn]] void give_up(const std::string& message) {
  // Straight to the descriptor: the thread that hangs may hold the locks of any stream. If stderr is gone, abort
  // anyway.
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  std::abort();
}

}  // namespace

Watchdog::Watchdog(std::string who, std::chrono::milliseconds limit)
    : who_(std::move(who)), limit_(limit), deadline_(std::chrono::steady_clock::now() + limit) {
  const core::SignalsBlocked blocked;  // inherited by the thread
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::enter(std::string stage) {
  const std::lock_guard lock(mutex_);
  stage_ = std::move(stage);
  deadline_ = std::chrono::steady_clock::now() + limit_;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    const auto deadline = deadline_;
    changed_.wait_until(lock, deadline, [this] { return done_; });
    if (!done_ && std::chrono::steady_clock::now() >= deadline_) {
      give_up("reprieve: " + who_ + ": no answer from '" + stage_ + "' for " + std::to_string(limit_.count()) +
              " ms; aborting, because a hanging MPI-IO call cannot be left in any other way\n");
    }
  }
}

}  // namespace reprieve::storage
