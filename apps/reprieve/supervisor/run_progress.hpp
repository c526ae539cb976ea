// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a run has told about itself, event by event; how it ended; and the words for it. Pure.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/events.hpp"

namespace reprieve::supervisor {

// The record of a run, event by event, as a supervisor needs it.

/// An error that the ranks agreed on.
struct RunError {
  std::string code;  ///< as `to_string(ErrorCode)` names it; empty if unknown
  std::string message;
};

/// The run left after a notice, with its state saved.
struct SavedExit {
  std::filesystem::path checkpoint;
  int exit_code = 0;               ///< the restart code
  double seconds_from_notice = 0;  ///< on the rank that had the notice
};

/// One manager of a checkpoint directory, as its chief tells of it; with a handler or without one.
struct ChiefProgress {
  enum class Stage {
    opened,     ///< the directory is, by a manager; no handler was made for it
    starting,   ///< a handler is being made
    restoring,  ///< reading `restoring`, before any rank watches its signals
    running,    ///< all ranks watch their signals
    saved,      ///< left, or about to leave, after a save for a notice
    failed,     ///< with an error that all ranks heard
    finished,   ///< the handler was closed normally
  };

  /// Takes the next event; those that say nothing of the stage change nothing.
  void take(const core::LoggedEvent& logged);

  Stage stage = Stage::opened;
  bool has_handler = false;
  std::string started;  ///< when the directory was opened, as the record says it: later is greater
  std::filesystem::path directory;
  std::filesystem::path local_directory;  ///< of node-local copies; empty: it takes none
  std::string host;
  int pid = 0;
  int world_size = 0;
  std::vector<std::string> signals;               ///< that are a notice: "SIGTERM", "SIGUSR1"
  int restart_code = 0;                           ///< 0: not told yet
  bool noticed = false;                           ///< the ranks have agreed on a notice
  bool leaving = false;                           ///< and have neither left nor gone on since
  std::filesystem::path restoring;                ///< the file of stage `restoring`
  std::optional<std::uint64_t> restored;          ///< number of the checkpoint that was restored
  std::optional<std::uint64_t> restored_step;     ///< its calls of run, if they are known
  std::optional<std::uint64_t> newest;            ///< number of the checkpoint that was saved last
  std::optional<std::uint64_t> newest_step;       ///< its calls of run, if they are known
  std::optional<std::uint64_t> already_finished;  ///< the step at which an earlier run came to its end
  std::optional<SavedExit> saved;
  std::optional<RunError> error;
  std::optional<RunError> uncaught;  ///< of a restore in the middle of the work, if nothing came after it
};

/// All chiefs of a run. Most runs have one.
class RunProgress {
 public:
  /// @param record  the name of the file that the event is from: one for each manager
  void take(const std::string& record, const core::LoggedEvent& event) { chiefs_[record].take(event); }

  [[nodiscard]] const std::map<std::string, ChiefProgress>& chiefs() const noexcept { return chiefs_; }

  /// There is at least one handler, and a notice can be sent to the ranks of all: they watch their signals. Managers
  /// without a handler watch none, and are not waited for.
  [[nodiscard]] bool ready() const;
  /// Whether any program has begun to make a handler, or has failed or ended.
  [[nodiscard]] bool has_handler() const;
  /// A notice is or was of no use to any handler any more: each has heard it, or has ended.
  [[nodiscard]] bool notice_arrived() const;
  /// At least one chief has left after a save, and no other failed or was cut short.
  [[nodiscard]] const SavedExit* saved() const;
  /// The step at which an earlier run was finished, if all chiefs refused to make steps a second time.
  [[nodiscard]] std::optional<std::uint64_t> already_finished() const;
  /// The first error.
  [[nodiscard]] const RunError* error() const;
  /// The error with which a restore in the middle of the work failed, if nothing came after it.
  [[nodiscard]] const RunError* uncaught() const;
  /// The file that a chief was restoring when its record ended.
  [[nodiscard]] std::optional<std::filesystem::path> restoring() const;
  /// The record of a chief ends where no program comes to its end by itself: it was reading a checkpoint, or about to
  /// leave after a notice; or it has left, to be started again, while others had not.
  [[nodiscard]] bool cut_short() const;
  /// A handler was made that did not come to its end: it works, was cut short, has saved for the next start, or failed.
  [[nodiscard]] bool leaves_work() const;
  /// The directory of a handler that was made, and of which the record does not say that it was closed.
  [[nodiscard]] std::optional<std::filesystem::path> unfinished() const;
  /// A chief has committed a checkpoint beyond the one that it began with.
  [[nodiscard]] bool progressed() const;
  /// What the ranks mean by "saved, start me again": as told, or else the default of the library.
  [[nodiscard]] int restart_code() const;
  /// Checkpoint directories, each once.
  [[nodiscard]] std::vector<std::filesystem::path> directories() const;

 private:
  /// Those that count: what became of a program says nothing any more when another one has opened its directory since,
  /// as in a script that starts a program again until it succeeds.
  [[nodiscard]] std::vector<const ChiefProgress*> current() const;

  std::map<std::string, ChiefProgress> chiefs_;
};

// How a run ended. Pure.

/// What came of one start of the program.
struct Verdict {
  enum class End {
    finished,  ///< it came to its end
    saved,     ///< it left after a notice, its state saved
    failed,    ///< anything else
  };
  End end = End::failed;
  int exit_code = 1;   ///< what a supervisor returns for it
  std::string reason;  ///< in words
  /// It committed a checkpoint beyond the one that it began with.
  bool progressed = false;
  /// The next start would meet the same error.
  bool hopeless = false;
  /// It died, without an error of its own, while it read this file.
  std::optional<std::filesystem::path> died_restoring;
};

/// Judges by the run's record. The code of the launcher counts only where the record leaves a choice: launchers return
/// 1 after a signal whatever the ranks return, or 0 after a crash, and a program may return the restart code by itself.
/// With a handler that was made and never closed, 0 is a failure; a program without a handler is believed.
/// @param launcher_code  as a shell shows it: 128 + signal if one killed it
/// @return exit code 0 if finished; the restart code if saved; otherwise the launcher's, or 1 if that would be taken
/// for one of the two
Verdict judge(const RunProgress& progress, int launcher_code);

/// "exit code 7", "signal SIGKILL (137)".
std::string code_text(int shell_code);

// What a supervisor tells about, and the words for it. Pure.

/// Something that happened, for people (text) and for programs (name and fields).
struct SupervisorEvent {
  std::string name;  ///< "start", "ready", "request", "notice_sent", "exit", "end", "restart", ...
  std::string text;
  nlohmann::json fields = nlohmann::json::object();
};

/// An event of the run's record as one of the supervisor's; nothing for those that only tools care about.
std::optional<SupervisorEvent> describe(const core::LoggedEvent& recorded);

}  // namespace reprieve::supervisor
