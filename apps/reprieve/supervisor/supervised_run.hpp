// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// One start of the program: the directory of its record, reading it, and the processes.

#include <chrono>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/directory.hpp"
#include "supervisor/launcher.hpp"
#include "supervisor/processes.hpp"
#include "supervisor/run_progress.hpp"

namespace reprieve::supervisor {

/// A new directory that only this user can enter, removed with its content at the end. What supervisors of this user
/// left beside it when they were killed is removed as well.
///
/// Under another supervisor (a drill of a script that calls `reprieve run`) it lies in that one's directory, which
/// reads it as well and removes it; and what that one orders reaches the runs.
class RunDirectory {
 public:
  /// @param parent  where to make it; empty: the working directory if the ranks of @p command seem to be on several
  /// nodes, which all must see it, else the directory for temporary files
  /// @throws StorageError if it cannot be made there
  RunDirectory(const std::filesystem::path& parent, const std::vector<std::string>& command);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Whether a record can be written there.
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return own_->path(); }

  /// Makes the directory of one start of the program. @throws StorageError
  [[nodiscard]] std::filesystem::path make(int start) const;

  /// The supervisor above this one rehearses: what happens is not to have consequences beyond the run.
  [[nodiscard]] bool is_dry_run() const;

 private:
  std::filesystem::path outer_;  ///< that of a supervisor above this one, or empty
  core::Directory parent_;       ///< where it was made
  /// Locked as long as this supervisor lives, so that others can see when it has gone. Set by the constructor.
  std::optional<core::Directory> own_;
};

/// One event, and the name of the record that it is from.
struct RecordedEvent {
  std::string record;
  core::LoggedEvent logged;
};

/// Follows all records in a run directory.
class RunRecordReader {
 public:
  explicit RunRecordReader(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// What was written since the last call, each record in its order. Lines that are not events, or not complete yet,
  /// are passed over. A directory that cannot be read has no events.
  std::vector<RecordedEvent> read_new();

 private:
  std::filesystem::path directory_;
  std::map<std::string, core::LogFollower> records_;
};

/// The message of an error report (`error.json`), if it is one and not older than @p not_before_s (seconds since 1970).
/// Anything else than a report, whatever it holds, is none.
[[nodiscard]] std::optional<std::string> message_of_error_report(std::istream& report, double not_before_s);

/// One start of the program, from its process to the last of its descendants.
class SupervisedRun {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the program. @throws UsageError if it cannot be started
  SupervisedRun(const std::vector<std::string>& command, const LaunchSettings& settings);

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] Clock::time_point started() const noexcept { return started_; }
  [[nodiscard]] const RunProgress& progress() const noexcept { return progress_; }
  /// What the program returned, as a shell shows it; nothing while it runs, or while a launcher lives whose script was
  /// ended by a signal.
  [[nodiscard]] std::optional<int> code() const noexcept { return code_; }

  /// Sees whether it has ended. To be called whenever children were reaped.
  void check_end();

  /// Takes up what the run has recorded since the last call, and returns it.
  std::vector<RecordedEvent> read_record();

  /// Gives the ranks notice that the job will end: by the directory of the run, and by signals if they do not see it
  /// there. Returns the receivers: "SIGUSR1 to orterun 4711"; empty if there are none.
  /// @param attempt  1 for the first one
  std::string send_notice(const std::string& why, int attempt) const;

  /// Kills launchers that hang although all that they launched has ended. Returns whom: "orterun 4711"; empty if there
  /// is none. To be called several times a second.
  std::string kill_hung_launchers();

  /// Asks the program itself to end, whatever is lost.
  void terminate() const;
  /// Kills it and all that it started. @param spared  not this child, nor what is below it
  void kill_all(pid_t spared) const;

  /// What the event logs of the checkpoint directories say of this run: those that its record names, and @p directory.
  /// For a run whose record could not be written, or not to its end.
  [[nodiscard]] RunProgress progress_in_event_logs(const std::optional<std::filesystem::path>& directory) const;

  /// The error that the run left beside its checkpoints, if it is this run's.
  [[nodiscard]] std::optional<std::string> error_report() const;

 private:
  [[nodiscard]] bool post_notice(const std::string& why) const;
  [[nodiscard]] bool notice_was_seen() const;

  Clock::time_point started_ = Clock::now();
  std::chrono::system_clock::time_point started_wall_clock_ = std::chrono::system_clock::now();
  std::filesystem::path run_directory_;
  RunRecordReader reader_;
  RunProgress progress_;
  pid_t pid_ = -1;
  std::optional<int> code_;  ///< of the program, once no launcher that it has started is left
  HungLaunchers launchers_;
};

}  // namespace reprieve::supervisor
