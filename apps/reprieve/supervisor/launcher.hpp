// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a supervisor has to know about launchers: how to reach the ranks through them, how to keep the scheduler's
/// signals away from their daemons, and how their commands say ranks and hosts. Pure.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/process.hpp"
#include "supervisor/hosts.hpp"
#include "supervisor/processes.hpp"
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
/// may run them); without a launcher, at each rank 0 on this host, since one rank that knows is enough; else at the
/// program itself. Never SIGTERM to a launcher: that would begin its tear-down.
/// @param started  the program that was started
/// @param processes  it and all below it, parents before children
/// @return empty if the ranks watch no signal that can reach them
std::vector<NoticeTarget> notice_targets(pid_t started, const std::vector<ProcessInfo>& processes,
                                         const RunProgress& progress, const std::string& host);

/// How to start the program.
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

// The command that starts a program under a launcher: on how many ranks and which hosts, and the same command for
// others. Pure.
//
// A launcher is found among the words by its name. Its options end where the program seems to begin: an option of a
// launcher takes the next word, unless it is known to take none or two, or that word begins with a dash.

/// The number of ranks: what follows the launcher's -n, -np, --np or --ntasks. Nothing if there is no launcher among
/// the words, or none of these options of it.
[[nodiscard]] std::optional<int> ranks_of(const std::vector<std::string>& command);

/// The same command on @p ranks ranks. Also where number and option are one word: "-n4", "--ntasks=4". Nothing where
/// `ranks_of` says nothing.
[[nodiscard]] std::optional<std::vector<std::string>> with_ranks(std::vector<std::string> command, int ranks);

/// Where a command for Open MPI's mpirun names its hosts.
struct NamedHosts {
  std::vector<std::string> lists;  ///< the values of --host: "h0:2,h1"
  std::vector<std::string> files;  ///< of --hostfile
};

/// Nothing if Open MPI's mpirun is not among the words.
[[nodiscard]] std::optional<NamedHosts> hosts_of(const std::vector<std::string>& command);

/// The same command on these hosts and no others, by one --host. For a command that `hosts_of` understands.
[[nodiscard]] std::vector<std::string> with_hosts(const std::vector<std::string>& command,
                                                  const std::vector<HostSlots>& hosts);

/// A command that runs @p words on @p host by this launcher, with those options of @p command that say how hosts are
/// reached. For a command that `hosts_of` understands.
[[nodiscard]] std::vector<std::string> on_host(const std::vector<std::string>& command, const std::string& host,
                                               const std::vector<std::string>& words);

/// The same command, which ends 0.3 s later: mpirun of Open MPI 5.0 can wait for ever for one that ends at once on
/// another host.
[[nodiscard]] std::vector<std::string> with_rest(const std::vector<std::string>& words);

/// A command that runs @p words once on each node of the job, if srun is the launcher of @p command.
[[nodiscard]] std::optional<std::vector<std::string>> on_nodes_of_srun(const std::vector<std::string>& command,
                                                                       const std::vector<std::string>& words);

}  // namespace reprieve::supervisor
