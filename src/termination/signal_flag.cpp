// SPDX-License-Identifier: BSD-3-Clause
#include "termination/signal_flag.hpp"

#include <pthread.h>
#include <signal.h>  // NOLINT: sigaction is POSIX, not in <csignal>
#include <string.h>  // NOLINT: sigabbrev_np is GNU
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::termination {

namespace {

constexpr int kSignals = 65;

/// Arrivals of one signal. `time_ns` is that of the first since the last acknowledgement, zero if there is none.
struct Arrival {
  std::atomic<std::int64_t> time_ns{0};
  std::atomic<pid_t> sender{0};
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

std::array<Arrival, kSignals> arrivals;           // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::array<struct sigaction, kSignals> previous;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::array<bool, kSignals> installed{};           // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::size_t slot(int signal) { return static_cast<std::size_t>(signal); }

void call_previous(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = previous[slot(signal)];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

void on_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // the clock of std::chrono::steady_clock
  Arrival& arrival = arrivals[slot(signal)];
  // SI_USER and SI_QUEUE carry a sender; the kernel's own signals do not.
  arrival.sender.store(info->si_code <= 0 ? info->si_pid : 0, std::memory_order_relaxed);
  std::int64_t none = 0;
  arrival.time_ns.compare_exchange_strong(none, std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec,
                                          std::memory_order_release);
  call_previous(signal, info, context);
  errno = saved_errno;
}

/// In a child that was forked: its signals are its own. It is no rank of the job, so that a SIGTERM to it is no notice,
/// and must end it as it would have without this library.
void give_back_in_child() {
  for (std::size_t signal = 1; signal < kSignals; ++signal) {
    if (installed[signal]) {
      sigaction(static_cast<int>(signal), &previous[signal], nullptr);
      installed[signal] = false;
      arrivals[signal].time_ns.store(0, std::memory_order_relaxed);
    }
  }
}

void prepare_for_forks() {
  if (pthread_atfork(nullptr, nullptr, give_back_in_child) != 0) {
    core::log::warning("children that are forked will not be ended by signals that are watched");
  }
}

void install_one(int signal) {
  if (signal <= 0 || signal >= kSignals) {
    throw UsageError(fmt::format("{} is not a signal number", signal));
  }
  if (installed[slot(signal)]) {
    return;
  }
  // The handler may run as soon as it is installed, so what it reads is set before.
  struct sigaction action {};
  if (sigaction(signal, nullptr, &previous[slot(signal)]) != 0) {
    throw UsageError(fmt::format("cannot watch {}: {}", signal_name(signal), std::strerror(errno)));
  }
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0) {
    throw UsageError(fmt::format("cannot watch {}: {}", signal_name(signal), std::strerror(errno)));
  }
  installed[slot(signal)] = true;
}

}  // namespace

void install_signal_handler(const std::vector<int>& signals) {
  [[maybe_unused]] static const bool once = (prepare_for_forks(), true);
  for (const int signal : signals) {
    install_one(signal);
  }
}

void uninstall_signal_handler() noexcept {
  for (int signal = 1; signal < kSignals; ++signal) {
    if (installed[slot(signal)]) {
      if (sigaction(signal, &previous[slot(signal)], nullptr) != 0) {
        core::log::warning("cannot give {} back: {}", signal_name(signal), std::strerror(errno));
      }
      installed[slot(signal)] = false;
    }
  }
}

std::optional<SignalNotice> pending_signal(const std::vector<int>& signals) {
  std::optional<SignalNotice> first;
  for (const int signal : signals) {
    const Arrival& arrival = arrivals[slot(signal)];
    const std::int64_t time_ns = arrival.time_ns.load(std::memory_order_acquire);
    if (time_ns == 0) {
      continue;
    }
    const std::chrono::steady_clock::time_point time{std::chrono::nanoseconds(time_ns)};
    if (!first || time < first->time) {
      const pid_t sender = arrival.sender.load(std::memory_order_relaxed);
      first = SignalNotice{signal, sender, sender != 0 && sender == getppid(), time};
    }
  }
  return first;
}

bool any_signal_pending(const std::vector<int>& signals) noexcept {
  for (const int signal : signals) {
    if (arrivals[slot(signal)].time_ns.load(std::memory_order_relaxed) != 0) {
      return true;
    }
  }
  return false;
}

void acknowledge_signals(const std::vector<int>& signals) noexcept {
  for (const int signal : signals) {
    arrivals[slot(signal)].time_ns.store(0, std::memory_order_release);
  }
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace reprieve::termination
