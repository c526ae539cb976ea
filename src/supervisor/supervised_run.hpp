// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// One start of the program, from its process to the last of its descendants.

#include <chrono>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/child_process.hpp"
#include "supervisor/hung_launcher.hpp"
#include "supervisor/launcher.hpp"
#include "supervisor/run_progress.hpp"
#include "supervisor/run_record_reader.hpp"
#include "supervisor/verdict.hpp"

namespace reprieve::supervisor {

/// The message of an error report (`error.json`), if it is one and not older than @p not_before_s (seconds since 1970).
/// Anything else than a report, whatever it holds, is none.
[[nodiscard]] std::optional<std::string> message_of_error_report(std::istream& report, double not_before_s);

class SupervisedRun {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the program. @throws UsageError if it cannot be started
  SupervisedRun(const std::vector<std::string>& command, const LaunchSettings& settings);

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] Clock::time_point started() const noexcept { return started_; }
  [[nodiscard]] const RunProgress& progress() const noexcept { return progress_; }
  /// What the program returned, as a shell shows it; nothing while it runs.
  [[nodiscard]] std::optional<int> code() const noexcept { return code_; }

  /// To be told of every child that ended.
  void on_ended(const EndedChild& child);

  /// Takes up what the run has recorded since the last call, and returns it.
  std::vector<RecordedEvent> read_record();

  /// Tells the ranks that the job is about to end. Returns whom it told: "SIGUSR1 to orterun 4711"; empty if nobody can
  /// be told.
  std::string send_notice() const;

  /// Kills launchers that hang although all that they launched has ended. Returns whom: "orterun 4711"; empty if there
  /// is none. To be called several times a second.
  std::string kill_hung_launchers();

  /// Asks the program itself to end, whatever is lost.
  void terminate() const;
  /// Kills it and all that it started.
  void kill_all() const;

  /// What the event logs of the checkpoint directories say of this run: those that its record names, and @p directory.
  /// For a run whose record could not be written, or not to its end.
  [[nodiscard]] RunProgress progress_in_event_logs(const std::optional<std::filesystem::path>& directory) const;

  /// The error that the run left beside its checkpoints, if it is this run's.
  [[nodiscard]] std::optional<std::string> error_report() const;

 private:
  Clock::time_point started_ = Clock::now();
  std::chrono::system_clock::time_point started_wall_clock_ = std::chrono::system_clock::now();
  RunRecordReader reader_;
  RunProgress progress_;
  pid_t pid_ = -1;
  std::optional<int> code_;
  HungLaunchers launchers_;
};

}  // namespace reprieve::supervisor
