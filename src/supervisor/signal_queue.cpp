// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/signal_queue.hpp"

#include <poll.h>
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::supervisor {

namespace {

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorCode::io, fmt::format("cannot {}: {}", what, std::generic_category().message(errno)));
}

/// An ignored signal never reaches the queue, and ignored SIGCHLD loses exit codes.
void stop_ignoring(int signal) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  if (::sigaction(signal, &standard, nullptr) != 0) {
    fail("set a signal's disposition");
  }
}

}  // namespace

SignalQueue::SignalQueue() {
  sigset_t queued;
  sigemptyset(&queued);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGURG, SIGCHLD}) {
    sigaddset(&queued, signal);
  }
  // Blocked first, so that none comes to its default action in between.
  if (::pthread_sigmask(SIG_BLOCK, &queued, &before_) != 0) {
    fail("block signals");
  }
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGURG, SIGCHLD}) {
    stop_ignoring(signal);
  }
  // Output into a closed pipe must not end the supervisor while the job runs.
  if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
    fail("ignore SIGPIPE");
  }
  descriptor_ = ::signalfd(-1, &queued, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) {
    fail("make a signal queue");
  }
}

SignalQueue::~SignalQueue() {
  ::close(descriptor_);
  if (::pthread_sigmask(SIG_SETMASK, &before_, nullptr) != 0) {
    core::log::error("cannot restore the signal mask");
  }
}

std::vector<int> SignalQueue::wait(std::chrono::milliseconds limit) {
  pollfd entry{descriptor_, POLLIN, 0};
  if (::poll(&entry, 1, static_cast<int>(limit.count())) < 0 && errno != EINTR) {
    fail("wait for signals");
  }
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(descriptor_, &info, sizeof info) == ssize_t{sizeof info}) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

}  // namespace reprieve::supervisor
