// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The run record: what a run reports to the supervisor that started it.
///
/// A supervisor makes a private directory for each run and names it in the environment. Every manager of a checkpoint
/// directory then writes its events there as well as into its event log, in the same form, into a file of its own:
/// nodes that share a file system cannot append to one file together, and a process may have several managers open. One
/// that is opened when another one has been closed continues in that one's file. The supervisor decides by these
/// events, since the exit code of a launcher says too little.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/directory.hpp"
#include "core/events.hpp"
#include "core/json_fields.hpp"
#include "core/process.hpp"

namespace reprieve::core {

/// The variable that names the directory.
inline constexpr const char* kRunDirectoryVariable = "REPRIEVE_RUN_DIR";

/// The variable that names the checkpoint directory, for the program that a supervisor starts.
inline constexpr const char* kDirectoryVariable = "REPRIEVE_DIRECTORY";

/// The file in the checkpoint directory that ends the job politely when somebody makes it: a supervisor looks for it,
/// or, where there is none, the run itself.
inline constexpr const char* kPreemptFile = "PREEMPT";

/// The same for a checkpoint: the run saves, removes the file, and continues. Rank 0 looks for it.
inline constexpr const char* kSaveFile = "SAVE";

/// The lock of a checkpoint directory; its text is unlike that of any other launch.
inline constexpr const char* kLockName = ".reprieve.lock";

/// How the text of such a file begins if it is for one launch alone; the text of the lock follows.
inline constexpr const char* kForLaunch = "for the launch ";

/// Whether it is for the launch that has the directory now, or for any: an old one must not stop a new launch. If that
/// cannot be read, it is.
[[nodiscard]] bool is_for_this_launch(const Directory& directory, const std::string& file) noexcept;

/// The variable that is set where the supervisor looks for the end of the job, so that the ranks need not.
inline constexpr const char* kWatchesEndVariable = "REPRIEVE_RUN_WATCHES_END";

/// The file in the run's directory by which the supervisor gives notice; its text says why.
inline constexpr const char* kNoticeFile = "notice";

/// How the name of a file there begins by which a rank 0 says that it has seen the notice.
inline constexpr const char* kSeenPrefix = "seen-";

/// The file above the run's directory that says on which host the supervisor holds a lock on that place while it lives.
inline constexpr const char* kLockedFile = "locked";

/// The name that a record ends with; before it stand host, process and, but for the first manager, its number.
inline constexpr const char* kRunRecordSuffix = ".jsonl";

/// The record of one manager. Thread: that of the manager.
class RunRecord {
 public:
  /// Records nothing.
  RunRecord() = default;
  RunRecord(EventLog log, std::shared_ptr<const int> number) : log_(std::move(log)), number_(std::move(number)) {}

  /// As `EventLog::write`.
  void write(const Event& event) { log_.write(event); }

 private:
  EventLog log_;
  std::shared_ptr<const int> number_;  ///< among those that are open in this process; freed with the last copy
};

/// Opens a record of this process. Records nothing if no supervisor has started it.
RunRecord open_run_record(const std::string& host);

// What a dry run of a preemption (`reprieve drill`) asks of the run that it has started: a file in the run's private
// directory. It works for every program that uses the library, whatever settings it takes.

struct DrillOrders {
  /// Every checkpoint directory is replaced by one of this name inside it: the user's checkpoints are neither restored
  /// nor touched, and the disk is the one that the real run writes to.
  std::string subdirectory{};
  /// A notice is there before the first step boundary. What is saved then is the state with which the program continues
  /// after its restore.
  bool leave_at_once = false;
  /// The state of this step (calls of `run`) is saved, and the run continues. What it saves from then on stays,
  /// whatever the settings say of old checkpoints.
  std::optional<std::uint64_t> save_at{};
  /// At this step the run saves and leaves, and at its end if that comes first.
  std::optional<std::uint64_t> leave_at{};
  /// From the second step boundary on, what steps change in the memory of rank 0 is looked at.
  std::optional<bool> watch_memory{};
  REPRIEVE_FIELDS(subdirectory, leave_at_once, save_at, leave_at, watch_memory)

  friend bool operator==(const DrillOrders&, const DrillOrders&) = default;
};

/// The orders' file in a run's directory.
inline constexpr const char* kDrillOrdersName = "drill.json";

/// The text of the orders for this process; empty outside of a drill.
std::string read_drill_orders();

/// Nothing for an empty text. @throws ConfigError if it is none that `to_text` makes
std::optional<DrillOrders> parse_drill_orders(const std::string& text);

std::string to_text(const DrillOrders& orders);

// The processes of a run, as a file beside its checkpoints, which shows others whether they live.
//
// Rank 0 writes a new file for every run. Every rank then holds a shared lock (flock) on it until its process ends,
// however that happens. So whoever gets an exclusive lock knows that the whole run is gone, on every node whose file
// system shares its locks; the list inside shows which processes they were.

/// The name of the file in the checkpoint directory.
inline constexpr const char* kWorkerRecordName = ".reprieve.workers";

/// One process of a run.
struct Worker {
  int rank = 0;
  std::string host{};
  pid_t pid = 0;
  std::uint64_t start = 0;  ///< of the process, in clock ticks since the boot: unlike its number, never another's
  REPRIEVE_FIELDS(rank, host, pid, start)

  /// This process.
  static Worker self(int rank, std::string host);
};

/// What is not of that form is left out.
std::vector<Worker> workers_from_json(const nlohmann::json& document);

/// Puts a new file with these processes into the directory. @throws StorageError
void write_worker_record(const std::filesystem::path& directory, const nlohmann::json& workers);

/// A shared lock on the file, for as long as this object or its process lives. Where it cannot be had, that is logged.
class WorkerLock {
 public:
  explicit WorkerLock(const std::filesystem::path& directory);

 private:
  Descriptor descriptor_;
  ClosedOnFork closed_on_fork_;  ///< ends before the descriptor does
};

}  // namespace reprieve::core
