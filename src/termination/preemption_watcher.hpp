// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A run as a process beside it sees it, through its checkpoint directory: for a `PreemptionWatcher` outside of a job.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/events.hpp"
#include "core/run_record.hpp"
#include "reprieve/notice.hpp"

namespace reprieve::termination {

/// Reads what is added to the event log, and keeps hold of the list of the run's processes. Not thread-safe.
class RunFollower {
 public:
  /// What is in the log already does not count.
  explicit RunFollower(std::filesystem::path directory);

  /// The first notice in what was added since the last call; nothing if there is none yet.
  std::optional<PreemptionMessage> next_notice();

  /// Those of the latest run that live on: "rank 3 (process 4711 on host)"; empty if all are gone.
  [[nodiscard]] std::vector<std::string> living();

 private:
  void hold_record();

  std::filesystem::path directory_;
  core::LogFollower log_;
  core::Descriptor record_;  ///< the list of the run, open: its lock is that of this very run
  std::vector<core::Worker> workers_;
};

}  // namespace reprieve::termination
