// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The signal handler and the flag that it sets: the only mutable globals of the library.
///
/// The handler stores to lock-free atomics, calls the handler that was installed before, and does nothing else. Signals
/// may arrive on any thread (those of MPI's helper threads inherit an open mask), so nothing here is thread-local.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprieve::termination {

/// What is known of a watched signal that arrived.
struct SignalNotice {
  int signal = 0;
  pid_t sender = 0;          ///< process that sent it, 0 if the kernel did
  bool from_parent = false;  ///< the launcher sent it: a preemption, or the tear-down after a peer's death
  std::chrono::steady_clock::time_point time;  ///< when the first one since the last acknowledgement arrived
};

/// SIGTERM and SIGUSR1. Each other one is a notice where the program has no use of its own for it.
[[nodiscard]] bool is_notice_everywhere(int signal) noexcept;

/// Whether the program needs a signal for itself: its action is neither the default one nor the handler of this
/// library.
[[nodiscard]] bool is_taken(int signal) noexcept;

/// Installs the handler for each of @p signals, in front of what the program has installed. In a child that is forked
/// it acts on what the child, its parent and the rank send alone: a signal to all processes of the job is the rank's.
/// Thread-safe but for `uninstall_signal_handler`. @throws UsageError for a signal that cannot be caught
void install_signal_handler(const std::vector<int>& signals);

/// Installs it again where the program has set another action since. A signal that the program ignores now is left to
/// it, and one that is not a notice everywhere if it has a handler for it. Logs each signal once. Thread-safe as
/// `install_signal_handler`.
void keep_signal_handler(const std::vector<int>& signals) noexcept;

/// Gives the signals back to the handlers from before, unless the program has installed newer ones. Notices recorded so
/// far stay. Not thread-safe.
void uninstall_signal_handler() noexcept;

/// A watched signal that arrived and is not acknowledged. @p signals limits it to these. Thread-safe.
std::optional<SignalNotice> pending_signal(const std::vector<int>& signals);

/// Whether there is one. Thread-safe. Cost: a load per signal.
bool any_signal_pending(const std::vector<int>& signals) noexcept;

/// Forgets the arrivals of @p signals: the notice was acted on.
void acknowledge_signals(const std::vector<int>& signals) noexcept;

/// "SIGTERM" for SIGTERM; "signal 63" for one without a name.
std::string signal_name(int signal);

}  // namespace reprieve::termination
