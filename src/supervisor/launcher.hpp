// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a supervisor has to know about launchers: how to reach the ranks through them, and how to keep the scheduler's
/// signals away from their daemons. Pure.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/environment.hpp"
#include "supervisor/child_process.hpp"
#include "supervisor/run_progress.hpp"

namespace reprieve::supervisor {

/// Whether an executable of this name starts ranks and forwards SIGUSR1 and SIGUSR2 to all of them.
bool is_launcher(const std::string& program);

/// A signal to send.
struct NoticeTarget {
  pid_t pid = 0;
  int signal = 0;

  friend bool operator==(const NoticeTarget&, const NoticeTarget&) = default;
};

/// How to reach the ranks: through their launchers, wherever these stand below the program that was started (a script
/// may run them); without a launcher, at the chiefs on this host, since one rank that knows is enough; else at the
/// program itself. Never SIGTERM to a launcher: that would begin its tear-down.
/// @param started  the program that was started
/// @param processes  it and all below it, parents before children
/// @return empty if the ranks watch no signal that can reach them
std::vector<NoticeTarget> notice_targets(pid_t started, const std::vector<ProcessInfo>& processes,
                                         const RunProgress& progress, const std::string& host);

/// How the program is to be started.
struct LaunchSettings {
  std::filesystem::path tool;           ///< this program, for nodes that start daemons
  std::filesystem::path run_directory;  ///< for the run record
  bool shield_daemons = true;
  /// A lost connection between nodes is noticed after so many seconds; 0: as the launcher is configured.
  int link_timeout_s = 0;
  Shield shield = Shield::signals;
  int output = -1;  ///< descriptor for the program's standard output; -1: this process's
  /// The end of the job is seen to, so that the ranks need not look for it.
  bool watches_end = true;
  /// For the checkpoints; nothing: the program, or the environment as it is, decides.
  std::optional<std::filesystem::path> directory = {};
};

using core::EnvironmentLookup;

/// The changes to the environment that make this so. What the user has set himself stays.
EnvironmentChanges launch_environment(const LaunchSettings& settings, const EnvironmentLookup& environment);

/// Whether the ranks seem to be on several nodes, so that the run record must lie on a file system that they share.
bool spans_nodes(const std::vector<std::string>& command, const EnvironmentLookup& environment);

}  // namespace reprieve::supervisor
