// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The processes of a run on this host, looked at from outside: /proc.

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reprieve::supervisor {

struct RunProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string program;      ///< file name of the executable; empty if that cannot be seen
  std::optional<int> rank;  ///< if a launcher has started it, or what it started
  bool uses_mpi = false;    ///< has an MPI library in memory
};

/// The living processes below this one, and those whose environment names the run's directory or one below it: srun's
/// tasks have another parent. Parents come before their children.
std::vector<RunProcess> processes_of_run(const std::filesystem::path& run_directory);

/// The process of each rank: of a rank's wrapper, program and helpers the outermost that uses MPI; else the innermost.
/// Pure.
std::map<int, pid_t> rank_processes(const std::vector<RunProcess>& processes);

/// False once it has ended, reaped or not.
bool lives(pid_t pid);

/// Whether a process handles or ignores a signal instead of dying of it.
bool survives(pid_t pid, int signal);

/// Whether a thread of the process stands in a write to its standard output or error, which nobody reads.
bool writes_output(pid_t pid);

}  // namespace reprieve::supervisor
