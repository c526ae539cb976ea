// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Launchers that do not end although nothing is left of what they launched. Pure.
///
/// Seen with Open MPI 4.1.4 when a rank is killed within some tens of milliseconds of its start, while it connects to
/// mpirun (1 time in some 100): mpirun waits for ever in PMIx_server_finalize for a lock that nobody holds any more.

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "supervisor/child_process.hpp"

namespace reprieve::supervisor {

class HungLaunchers {
 public:
  using Clock = std::chrono::steady_clock;

  /// A launcher that had children and has had none for @p limit hangs: its own tear-down takes some seconds. One that
  /// was never seen with any gets four times as long: it may have to look for hosts first, or its ranks died at once.
  explicit HungLaunchers(std::chrono::seconds limit = std::chrono::seconds(30)) : limit_(limit) {}

  /// @param processes  all that live now, as `descendants_of` lists them; to be told every few seconds, and several
  /// times a second while the ranks start
  /// @return those that hang
  [[nodiscard]] std::vector<ProcessInfo> find(const std::vector<ProcessInfo>& processes, Clock::time_point now);

 private:
  struct Seen {
    Clock::time_point last_busy;
    bool had_children = false;
  };

  std::chrono::seconds limit_;
  std::map<pid_t, Seen> seen_;
};

}  // namespace reprieve::supervisor
