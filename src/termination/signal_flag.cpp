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
#include <mutex>
#include <utility>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::termination {

namespace {

constexpr int kSignals = 65;

/// Arrivals of one signal. `time_ns` is that of the first since the last acknowledgement, zero if there is none.
struct ReceivedSignal {
  std::atomic<std::int64_t> time_ns{0};
  std::atomic<pid_t> sender{0};
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

/// What the program does at a signal. It may change while the handler runs, so there are two, which take turns.
struct Previous {
  std::array<struct sigaction, 2> actions{};
  std::atomic<const struct sigaction*> action{nullptr};  ///< null: the signal is not watched
  std::atomic<pid_t> caller{0};                          ///< the thread that is in it
};
static_assert(std::atomic<const struct sigaction*>::is_always_lock_free);

/// Of a forked child.
struct Ancestors {
  std::atomic<pid_t> parent{0};  ///< 0: this is no forked child
  std::atomic<pid_t> rank{0};    ///< the first one
};

std::array<ReceivedSignal, kSignals> arrivals;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::array<Previous, kSignals> previous;        // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
Ancestors ancestors;                            // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::size_t slot(int signal) { return static_cast<std::size_t>(signal); }

bool has_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

/// Whether this thread is in the handler from before, which may call this library's: that must not call it again.
bool is_in_previous(int signal) { return previous[slot(signal)].caller.load(std::memory_order_relaxed) == ::gettid(); }

void call_previous(int signal, siginfo_t* info, void* context) {
  Previous& before = previous[slot(signal)];
  const struct sigaction* const action = before.action.load(std::memory_order_acquire);
  if (action == nullptr || !has_handler(*action) || is_in_previous(signal)) {
    return;
  }
  before.caller.store(::gettid(), std::memory_order_relaxed);
  if ((action->sa_flags & SA_SIGINFO) != 0) {
    action->sa_sigaction(signal, info, context);
  } else {
    action->sa_handler(signal);
  }
  before.caller.store(0, std::memory_order_relaxed);
}

/// In a forked child, which is no rank of the job: what does not come from its own kin is meant for the rank, which may
/// still need it. Otherwise the signal does what it would do without this library.
void on_signal_in_child(int signal, const siginfo_t* known, siginfo_t* info, void* context) {
  const pid_t sender = known != nullptr ? known->si_pid : 0;  // 0 outside of the container that this process is in
  const pid_t parent = ::getppid();
  const bool is_own = known == nullptr || known->si_code > 0 || sender == ::getpid() || sender == parent ||
                      sender == ancestors.rank.load();
  if (!is_own && parent == ancestors.parent) {
    return;
  }
  const struct sigaction* const action = previous[slot(signal)].action.load(std::memory_order_acquire);
  if (action == nullptr || has_handler(*action)) {
    call_previous(signal, info, context);
  } else if (sigaction(signal, action, nullptr) == 0) {
    ::raise(signal);  // it comes when this handler returns
  }
}

void on_signal(int signal, siginfo_t* info, void* context);

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_signal;
}

bool is_installed(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && is_ours(action);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  // Another handler may call this one with the number alone, as that of MPICH does.
  const siginfo_t* const known = is_installed(signal) && !is_in_previous(signal) ? info : nullptr;
  if (ancestors.parent != 0) {
    on_signal_in_child(signal, known, info, context);
    errno = saved_errno;
    return;
  }
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // the clock of std::chrono::steady_clock
  ReceivedSignal& arrival = arrivals[slot(signal)];
  if (known != nullptr) {  // SI_USER and SI_QUEUE carry a sender; the kernel's own signals do not
    arrival.sender.store(known->si_code <= 0 ? known->si_pid : 0, std::memory_order_relaxed);
  }
  std::int64_t none = 0;
  arrival.time_ns.compare_exchange_strong(none, std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec,
                                          std::memory_order_release);
  call_previous(signal, info, context);
  errno = saved_errno;
}

/// Guards the installation: a thread keeps the handlers in their place.
std::mutex& installation() {
  static std::mutex mutex;
  return mutex;
}

void enter_child() {
  const pid_t parent = ::getppid();
  pid_t none = 0;
  ancestors.rank.compare_exchange_strong(none, parent);
  ancestors.parent = parent;
  for (ReceivedSignal& arrival : arrivals) {
    arrival.time_ns.store(0, std::memory_order_relaxed);
  }
  installation().unlock();
}

void prepare_for_forks() {
  const auto lock = [] { installation().lock(); };
  const auto unlock = [] { installation().unlock(); };
  if (pthread_atfork(lock, unlock, enter_child) != 0) {
    core::log::warning("forked children will take the signals of the rank for their own");
  }
}

/// @throws UsageError
struct sigaction action_of(int signal) {
  if (signal <= 0 || signal >= kSignals) {
    throw UsageError(fmt::format("{} is not a signal number", signal));
  }
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0) {
    throw UsageError(fmt::format("cannot watch {}: {}", signal_name(signal), std::strerror(errno)));
  }
  return action;
}

void install_one(int signal) {
  const struct sigaction before = action_of(signal);
  if (is_ours(before)) {
    return;
  }
  // The handler may run as soon as it is installed, so what it reads is set before.
  Previous& mine = previous[slot(signal)];
  struct sigaction& kept = mine.actions[mine.action == &mine.actions[0] ? 1 : 0];
  kept = before;
  mine.action.store(&kept, std::memory_order_release);
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0) {
    throw UsageError(fmt::format("cannot watch {}: {}", signal_name(signal), std::strerror(errno)));
  }
}

/// Which of them have been logged.
std::array<bool, kSignals>& logged() {
  static std::array<bool, kSignals> signals{};
  return signals;
}

void keep_one(int signal) {
  const struct sigaction now = action_of(signal);
  if (is_ours(now) || previous[slot(signal)].action == nullptr) {
    return;
  }
  const bool is_ignored = (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_IGN;
  const bool is_left = is_ignored || (has_handler(now) && !is_notice_everywhere(signal));
  if (!is_left) {
    install_one(signal);
  }
  if (std::exchange(logged()[slot(signal)], true)) {
    return;
  }
  if (is_ignored) {
    core::log::warning("{} is no longer a notice: the program ignores it now", signal_name(signal));
  } else if (is_left) {
    core::log::info("{} is no longer a notice: the program has a handler of its own", signal_name(signal));
  } else {
    core::log::warning(
        "another action was set for {}, so that it was no notice: the handler of this library is called before it now; "
        "call reprieve::unwatch_signals() if that is not wanted",
        signal_name(signal));
  }
}

}  // namespace

bool is_taken(int signal) noexcept {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && !is_ours(action) &&
         (has_handler(action) || action.sa_handler == SIG_IGN);
}

bool is_notice_everywhere(int signal) noexcept { return signal == SIGTERM || signal == SIGUSR1; }

void install_signal_handler(const std::vector<int>& signals) {
  const std::lock_guard lock(installation());
  [[maybe_unused]] static const bool once = (prepare_for_forks(), true);
  ancestors.parent = 0;  // a forked child that watches signals is a process of its own
  for (const int signal : signals) {
    install_one(signal);
  }
}

void keep_signal_handler(const std::vector<int>& signals) noexcept {
  const std::lock_guard lock(installation());
  for (const int signal : signals) {
    try {
      keep_one(signal);
    } catch (const Error& error) {
      core::log::warning("{}", error.what());
    }
  }
}

void uninstall_signal_handler() noexcept {
  const std::lock_guard lock(installation());
  for (int signal = 1; signal < kSignals; ++signal) {
    std::atomic<const struct sigaction*>& before = previous[slot(signal)].action;
    const struct sigaction* const action = before;
    struct sigaction now {};
    if (action != nullptr && sigaction(signal, nullptr, &now) == 0 && is_ours(now) &&
        sigaction(signal, action, nullptr) != 0) {
      core::log::warning("cannot give {} back: {}", signal_name(signal), std::strerror(errno));
    }
    before = nullptr;
  }
}

std::optional<SignalNotice> pending_signal(const std::vector<int>& signals) {
  std::optional<SignalNotice> first;
  for (const int signal : signals) {
    const ReceivedSignal& arrival = arrivals[slot(signal)];
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
    arrivals[slot(signal)].sender.store(0, std::memory_order_relaxed);
    arrivals[slot(signal)].time_ns.store(0, std::memory_order_release);
  }
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace reprieve::termination
