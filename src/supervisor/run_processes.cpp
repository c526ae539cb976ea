// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/run_processes.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include "core/run_record.hpp"
#include "supervisor/child_process.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;

fs::path proc(pid_t pid) { return fs::path("/proc") / std::to_string(pid); }

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// The variables that the process was started with; empty if they cannot be seen.
std::map<std::string, std::string> environment_of(pid_t pid) {
  std::ifstream file(proc(pid) / "environ", std::ios::binary);
  std::map<std::string, std::string> variables;
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (const auto equals = entry.find('='); equals != std::string::npos) {
      variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  return variables;
}

/// Not Slurm's SLURM_PROCID, which the batch script has as well.
std::optional<int> rank_in(const std::map<std::string, std::string>& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const auto found = environment.find(name); found != environment.end()) {
      return number(found->second);
    }
  }
  return std::nullopt;
}

bool names_run(const std::map<std::string, std::string>& environment, const fs::path& run_directory) {
  const auto found = environment.find(core::kRunDirectoryVariable);
  return found != environment.end() &&
         (found->second == run_directory.string() || found->second.starts_with(run_directory.string() + "/"));
}

bool maps_mpi(pid_t pid) {
  std::ifstream maps(proc(pid) / "maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/libmpi") != std::string::npos) {
      return true;
    }
  }
  return false;
}

/// The value of a line of /proc/<pid>/status.
std::string status_of(pid_t pid, const std::string& key) {
  std::ifstream status(proc(pid) / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) {
      const auto value = line.find_first_not_of(" \t", key.size() + 1);
      return value == std::string::npos ? "" : line.substr(value);
    }
  }
  return "";
}

bool has_signal(pid_t pid, const std::string& set, int signal) {
  const std::string mask = status_of(pid, set);
  unsigned long long bits = 0;
  std::istringstream(mask) >> std::hex >> bits;
  return (bits >> static_cast<unsigned>(signal - 1) & 1U) != 0;
}

bool task_writes_output(const fs::path& task) {
  std::ifstream file(task / "syscall");
  std::string call;
  std::string descriptor;
  if (!(file >> call >> descriptor)) {
    return false;
  }
  static const std::set<int> kWrites{SYS_write, SYS_writev};
  const auto id = number(call);  // or "running"
  return id && kWrites.contains(*id) && (descriptor == "0x1" || descriptor == "0x2");
}

}  // namespace

std::vector<RunProcess> processes_of_run(const fs::path& run_directory) {
  std::set<pid_t> own;
  for (const ProcessInfo& process : descendants_of(::getpid())) {
    own.insert(process.pid);
  }
  std::vector<RunProcess> found;
  for (const ProcessInfo& process : descendants_of(0)) {  // process 0 is the parent of the first ones
    const auto environment = environment_of(process.pid);
    if (process.pid != ::getpid() && (own.contains(process.pid) || names_run(environment, run_directory))) {
      const auto rank = rank_in(environment);
      found.push_back({process.pid, process.parent, process.program, rank, rank && maps_mpi(process.pid)});
    }
  }
  return found;
}

std::map<int, pid_t> rank_processes(const std::vector<RunProcess>& processes) {
  std::map<int, const RunProcess*> found;
  for (const RunProcess& process : processes) {
    if (!process.rank) {
      continue;
    }
    const RunProcess*& chosen = found[*process.rank];
    if (chosen == nullptr || !chosen->uses_mpi) {
      chosen = &process;
    }
  }
  std::map<int, pid_t> ranks;
  for (const auto& [rank, process] : found) {
    ranks[rank] = process->pid;
  }
  return ranks;
}

bool lives(pid_t pid) {
  const std::string state = status_of(pid, "State");
  return !state.empty() && state.front() != 'Z' && state.front() != 'X';
}

bool survives(pid_t pid, int signal) { return has_signal(pid, "SigCgt", signal) || has_signal(pid, "SigIgn", signal); }

bool writes_output(pid_t pid) {
  std::error_code error;
  for (fs::directory_iterator task(proc(pid) / "task", error), end; !error && task != end; task.increment(error)) {
    if (task_writes_output(task->path())) {
      return true;
    }
  }
  return false;
}

}  // namespace reprieve::supervisor
