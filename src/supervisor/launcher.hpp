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

/// What one launcher does, as it was measured. apps/guide/signals.md shows the same figures; a test compares them.
struct LauncherTraits {
  std::string name;                   ///< "Open MPI 5.0"
  std::vector<std::string> programs;  ///< its executables, behind all symbolic links
  bool has_children = true;           ///< the ranks of its own node are its children
  // Of Open MPI's mpirun alone:
  std::string variables{};  ///< the environment names its parameters with this before them
  std::string agent{};      ///< the parameter that names the command for a daemon on another node
  std::string daemon{};
  std::string kill_parameter{};  ///< sets half of the next, in seconds; empty: it cannot be set
  double kill_s = 0;             ///< from SIGTERM to it until the ranks of its own node get SIGKILL
};

/// All launchers that are known.
const std::vector<LauncherTraits>& launchers();

/// The version of Open MPI that says this line at `mpirun --version`. Nothing if it is not one of those that are known.
const LauncherTraits* open_mpi_of(const std::string& version_line);

/// "Open MPI 4.1 after 2 s, Open MPI 5.0 after 0.5 s": when SIGKILL follows a SIGTERM to mpirun.
std::string kill_times();

/// Whether an executable of this name starts ranks and forwards SIGUSR1 and SIGUSR2 to all of them.
bool is_launcher(const std::string& program);

/// Whether it can be Open MPI's.
bool is_open_mpi(const std::string& program);

/// Whether the ranks of its own node are its children.
bool has_children(const std::string& launcher);

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
