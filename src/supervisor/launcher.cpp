// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <string_view>

#include "core/run_record.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::supervisor {

namespace {

bool watches(const ChiefProgress& chief, int signal) {
  const std::string name = termination::signal_name(signal);
  return std::find(chief.signals.begin(), chief.signals.end(), name) != chief.signals.end();
}

/// The signal that launchers forward and every chief watches. A program that tells nothing is sent SIGUSR1.
std::optional<int> forwarded_signal(const RunProgress& progress) {
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    const auto& chiefs = progress.chiefs();
    if (std::all_of(chiefs.begin(), chiefs.end(), [&](const auto& entry) {
          return entry.second.stage != ChiefProgress::Stage::running || watches(entry.second, signal);
        })) {
      return signal;
    }
  }
  return std::nullopt;
}

/// Those that no other launcher has started: srun, for one, has a helper process.
std::vector<pid_t> outermost_launchers(const std::vector<ProcessInfo>& processes) {
  std::set<pid_t> inside;
  std::vector<pid_t> found;
  for (const ProcessInfo& process : processes) {
    if (inside.contains(process.parent)) {
      inside.insert(process.pid);
    } else if (is_launcher(process.program)) {
      inside.insert(process.pid);
      found.push_back(process.pid);
    }
  }
  return found;
}

/// The signal by which a single rank can be told.
std::optional<int> watched_signal(const ChiefProgress& chief) {
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP}) {
    if (watches(chief, signal)) {
      return signal;
    }
  }
  return std::nullopt;
}

std::vector<NoticeTarget> local_chiefs(const std::vector<ProcessInfo>& processes, const RunProgress& progress,
                                       const std::string& host) {
  std::vector<NoticeTarget> targets;
  for (const auto& [record, chief] : progress.chiefs()) {
    const bool lives = std::any_of(processes.begin(), processes.end(),
                                   [&, pid = chief.pid](const ProcessInfo& process) { return process.pid == pid; });
    const auto signal = watched_signal(chief);
    if (lives && chief.host == host && chief.stage == ChiefProgress::Stage::running && signal) {
      targets.push_back({chief.pid, *signal});
    }
  }
  return targets;
}

bool has_space(const std::string& text) { return text.find_first_of(" \t") != std::string::npos; }

/// Keepalive probes of the launcher's connections: half of the time idle, then six probes.
void set_link_timeout(EnvironmentChanges& changes, int timeout_s) {
  constexpr int kProbes = 6;
  const std::string prefix = "OMPI_MCA_oob_tcp_keepalive_";
  changes[prefix + "time"] = std::to_string(std::max(1, timeout_s / 2));
  changes[prefix + "intvl"] = std::to_string(std::max(1, timeout_s / 2 / kProbes));
  changes[prefix + "probes"] = std::to_string(kProbes);
}

}  // namespace

bool is_launcher(const std::string& program) {
  static const std::set<std::string> kLaunchers{"orterun",         "mpirun",        "mpirun.openmpi", "mpiexec",
                                                "mpiexec.openmpi", "prterun",       "prun",           "srun",
                                                "mpirun.mpich",    "mpiexec.mpich", "mpiexec.hydra"};
  return kLaunchers.contains(program);
}

std::vector<NoticeTarget> notice_targets(pid_t started, const std::vector<ProcessInfo>& processes,
                                         const RunProgress& progress, const std::string& host) {
  const auto signal = forwarded_signal(progress);
  std::vector<NoticeTarget> targets;
  if (signal) {
    for (const pid_t launcher : outermost_launchers(processes)) {
      targets.push_back({launcher, *signal});
    }
  }
  if (targets.empty()) {
    targets = local_chiefs(processes, progress, host);
  }
  if (targets.empty() && signal) {
    targets.push_back({started, *signal});
  }
  return targets;
}

EnvironmentChanges launch_environment(const LaunchSettings& settings, const EnvironmentLookup& environment) {
  EnvironmentChanges changes;
  changes[core::kRunDirectoryVariable] = settings.run_directory.string();
  if (settings.watches_end) {
    changes[core::kWatchesEndVariable] = "1";
  }
  // The launcher splits the value at blanks, and what stands last is its daemon.
  const std::string agent = "OMPI_MCA_orte_launch_agent";
  const std::string directory = settings.directory ? settings.directory->string() : "";
  const bool can_be_split =
      !has_space(settings.tool.string()) && !has_space(settings.run_directory.string()) && !has_space(directory);
  if (settings.shield_daemons && can_be_split) {
    changes[agent] = fmt::format("{} launch-agent --run-dir {}{} orted", settings.tool.string(),
                                 settings.run_directory.string(), directory.empty() ? "" : " --directory " + directory);
  }
  if (settings.link_timeout_s > 0) {
    set_link_timeout(changes, settings.link_timeout_s);
  }
  std::erase_if(changes, [&](const auto& change) {
    return change.first != core::kRunDirectoryVariable && environment(change.first).has_value();
  });
  if (!directory.empty()) {
    changes[core::kDirectoryVariable] = directory;
  }
  return changes;
}

bool spans_nodes(const std::vector<std::string>& command, const EnvironmentLookup& environment) {
  static const std::set<std::string> kHostOptions{"-H",         "-host",        "--host",        "-hostfile",
                                                  "--hostfile", "-machinefile", "--machinefile", "--default-hostfile"};
  const bool named =
      std::any_of(command.begin(), command.end(), [](const auto& word) { return kHostOptions.contains(word); });
  return named || environment("SLURM_JOB_NUM_NODES").value_or("1") != "1" || environment("PBS_NODEFILE") ||
         environment("LSB_DJOB_HOSTFILE");
}

}  // namespace reprieve::supervisor
