// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The run record: what a run tells the supervisor that started it.
///
/// A supervisor makes a private directory for each run and names it in the environment. Every manager of a checkpoint
/// directory then writes its events there as well as into its event log, in the same form, into a file of its own:
/// nodes that share a file system cannot append to one file together, and a process may have several managers open. One
/// that is opened when another one has been closed goes on in that one's file. What a supervisor decides rests on these
/// events, since the exit code of a launcher tells too little.

#include <memory>
#include <string>
#include <utility>

#include "core/event_log.hpp"

namespace reprieve::core {

/// The variable that names the directory.
inline constexpr const char* kRunDirectoryVariable = "REPRIEVE_RUN_DIR";

/// The variable that names the checkpoint directory, for the program that a supervisor starts.
inline constexpr const char* kDirectoryVariable = "REPRIEVE_DIRECTORY";

/// The file in the checkpoint directory that ends the job politely when somebody makes it: a supervisor looks for it,
/// or, where there is none, the run itself.
inline constexpr const char* kPreemptFile = "PREEMPT";

/// The variable that is set where the supervisor looks for the end of the job, so that the ranks need not.
inline constexpr const char* kWatchesEndVariable = "REPRIEVE_RUN_WATCHES_END";

/// The name that a record ends with; before it stand host, process and, but for the first manager, its place.
inline constexpr const char* kRunRecordSuffix = ".jsonl";

/// The record of one manager. Thread: that of the manager.
class RunRecord {
 public:
  /// Records nothing.
  RunRecord() = default;
  RunRecord(EventLog log, std::shared_ptr<const int> place) : log_(std::move(log)), place_(std::move(place)) {}

  /// As `EventLog::record`.
  void record(const std::string& event, const nlohmann::json& fields) { log_.record(event, fields); }

 private:
  EventLog log_;
  std::shared_ptr<const int> place_;  ///< among those that are open in this process; freed with the last copy
};

/// Opens a record of this process. Records nothing if no supervisor has started it.
RunRecord open_run_record(const std::string& host);

}  // namespace reprieve::core
