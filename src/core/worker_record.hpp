// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The processes of a run, as a file beside its checkpoints, by which others can tell whether they live.
///
/// Rank 0 writes a new file for every run. Every rank then holds a shared lock (flock) on it until its process ends,
/// however that happens. So whoever gets an exclusive lock knows that the whole run is gone, on every node whose file
/// system shares its locks; the list inside tells which processes they were.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/fork_guard.hpp"

namespace reprieve::core {

/// The name of the file in the checkpoint directory.
inline constexpr const char* kWorkerRecordName = ".reprieve.workers";

/// One process of a run.
struct Worker {
  int rank = 0;
  std::string host;
  pid_t pid = 0;
  std::uint64_t start = 0;  ///< of the process, in clock ticks since the boot: unlike its number, never another's

  /// This process.
  static Worker self(int rank, std::string host);
};

nlohmann::json to_json(const Worker& worker);
/// What is not of that form is left out.
std::vector<Worker> workers_from_json(const nlohmann::json& document);

/// When a process of this host began; zero if there is none, or it has ended and waits for its parent.
std::uint64_t start_of_process(pid_t pid);

/// Puts a new file with these processes into the directory. @throws StorageError
void write_worker_record(const std::filesystem::path& directory, const nlohmann::json& workers);

/// A shared lock on the file, for as long as this object or its process lives. Where it cannot be had, that is logged.
class WorkerLock {
 public:
  explicit WorkerLock(const std::filesystem::path& directory);
  ~WorkerLock();
  WorkerLock(const WorkerLock&) = delete;
  WorkerLock& operator=(const WorkerLock&) = delete;

 private:
  int descriptor_ = -1;
  ClosedOnFork closed_on_fork_;
};

}  // namespace reprieve::core
