// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a supervisor has to know about launchers: how to reach the ranks through them, how to keep the scheduler's
/// signals away from their daemons, how their commands say ranks and hosts, and which hosts answer. Pure, but for
/// the files of hosts and ask_hosts.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/process.hpp"
#include "supervisor/processes.hpp"
#include "supervisor/run_progress.hpp"

namespace reprieve::supervisor {

/// What one launcher does, as it was measured. apps/guide/signals.md shows the same figures; a test compares them.
struct LauncherTraits {
  std::string name;                   ///< "Open MPI 5.0"
  std::vector<std::string> programs;  ///< its executables, behind all symbolic links
  bool has_children = true;           ///< the ranks of its own node are its children
  bool is_open_mpi = false;           ///< takes the options of Open MPI's mpirun
  // Of Open MPI's mpirun alone:
  std::string variables{};  ///< the environment names its parameters with this before them
  std::string agent{};      ///< the parameter that names the command for a daemon on another node
  std::string daemon{};
  std::string kill_parameter{};  ///< sets half of the next, in seconds; empty: it cannot be set
  double kill_s = 0;             ///< from SIGTERM to it until the ranks of its own node get SIGKILL
};

const std::vector<LauncherTraits>& launchers();

/// The version of Open MPI that says this line at `mpirun --version`. Nothing if it is not one of those that are known.
const LauncherTraits* open_mpi_of(const std::string& version_line);

/// "Open MPI 4.1 after 2 s, Open MPI 5.0 after 0.5 s": when SIGKILL follows a SIGTERM to mpirun.
std::string kill_times();

/// Null unless an executable of this name starts ranks and forwards SIGUSR1 and SIGUSR2 to all of them.
const LauncherTraits* traits_of(const std::string& program);

inline bool is_launcher(const std::string& program) { return traits_of(program) != nullptr; }

inline bool is_open_mpi(const std::string& program) { return is_launcher(program) && traits_of(program)->is_open_mpi; }

std::vector<std::string> launcher_commands();

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

// The hosts of a command, and which of them a start gets. Pure.

struct HostSlots {
  std::string name;
  int slots = 0;  ///< how many ranks have room there; 0: as many as the launcher finds

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

/// What --host of Open MPI's mpirun takes: "h0:2,h1". A host without a number has one slot; one that is named again has
/// so many more.
[[nodiscard]] std::vector<HostSlots> parse_host_list(const std::string& text);

/// A file for --hostfile, one host a line: "h0 slots=2". A host without slots has as many as the launcher finds, but as
/// many as lines if it has several.
[[nodiscard]] std::vector<HostSlots> parse_host_file(const std::string& text);

/// @throws UsageError if it cannot be read
[[nodiscard]] std::vector<HostSlots> read_host_file(const std::string& path);

/// "h0, h1".
[[nodiscard]] std::string host_names(const std::vector<HostSlots>& hosts);

/// The slots of all hosts but the last @p spares; 0 if one of them does not say how many it has.
[[nodiscard]] int slots_of(const std::vector<HostSlots>& hosts, int spares);

/// The nodes of a Slurm job, one a line, with the value of SLURM_TASKS_PER_NODE: "2(x3),1".
[[nodiscard]] std::vector<HostSlots> slurm_hosts(const std::string& names, const std::string& tasks_per_node);

/// As --host takes it: "h0:2,h1:*".
[[nodiscard]] std::string to_text(const std::vector<HostSlots>& hosts);

struct HostChoice {
  std::vector<HostSlots> hosts;
  int ranks = 0;
};

struct HostNeed {
  std::vector<HostSlots> hosts;  ///< all, in the order in which the launcher uses them
  int spares = 0;                ///< so many of the last of them stay free while none of the others is dead
  int ranks = 0;                 ///< of the command
  int min_ranks = 0;             ///< on fewer it is not started
};

/// The first hosts that are not dead: as many as a start without dead ones has, and more if they have fewer slots.
/// Where too few are left, the ranks that have room there; where the command has more ranks than slots, or slots are
/// unknown, as many ranks for each slot, or host, as without dead ones.
/// @return nothing if these are fewer than min_ranks
[[nodiscard]] std::optional<HostChoice> choose_hosts(const HostNeed& need, const std::set<std::string>& dead);

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

/// What hosts said.
struct HostAnswers {
  std::map<std::string, std::string> dead;     ///< those that did not answer, each with what the launcher says
  std::map<std::string, std::string> answers;  ///< of each host whose process has ended

  /// The host whose answer has this line.
  [[nodiscard]] std::optional<std::string> host_that_says(const std::string& line) const;
};

/// Starts a small process on each host by the launcher itself, some hosts at a time: an unreachable host cannot get a
/// rank. Thread: main.
/// @param command  that of the program: its launcher, and how that reaches hosts
/// @param patience  for each host
/// @param words  what is started there
/// @param attempts  for each host whose answer is an error: launchers that start and end at the same time share
///   directories, and one may fail for it
/// @param wait  waits a moment, and reaps children; false: what still runs is killed
/// @throws UsageError if there is no such launcher
[[nodiscard]] HostAnswers ask_hosts(const std::vector<std::string>& command, const std::vector<HostSlots>& hosts,
                                    std::chrono::milliseconds patience, const std::vector<std::string>& words,
                                    int attempts, const std::function<bool()>& wait);

}  // namespace reprieve::supervisor
