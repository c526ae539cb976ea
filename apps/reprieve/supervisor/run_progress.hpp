// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The reports of a run, event by event; how it ended; the words for it; and what a supervisor decides
/// then: when to give notice, whether to start again. Pure.

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

/// One manager of a checkpoint directory, as its rank 0 reports it; with a handler or without one.
struct ManagerProgress {
  enum class Stage {
    opened,     ///< the directory is, by a manager; no handler was made for it
    starting,   ///< a handler is being made
    restoring,  ///< reading `restoring`, before any rank watches its signals
    running,    ///< all ranks watch their signals
    saved,      ///< left, or about to leave, after a save for a notice
    failed,     ///< with an error that all ranks know
    finished,   ///< the handler was closed normally
  };

  /// Takes the next event; those that say nothing of the stage change nothing.
  void take(const core::LoggedEvent& logged);
  /// That of the newest checkpoint, or else of the one that was restored.
  [[nodiscard]] std::optional<std::uint64_t> number() const;

  Stage stage = Stage::opened;
  bool has_handler = false;
  std::string started;  ///< when the directory was opened, as the record says it: later is greater
  std::filesystem::path directory;
  events::Start start;
  events::Ready ready;              ///< what it says by then; before, no signals and 0 as the restart code
  bool noticed = false;             ///< the ranks have agreed on a notice
  bool leaving = false;             ///< and have neither left nor gone on since
  std::filesystem::path restoring;  ///< the file of stage `restoring`
  std::optional<events::Restored> restored;
  std::optional<events::SaveFinished> newest;  ///< the last save
  std::optional<events::Exit> saved;           ///< it left after a notice, with its state saved
  std::optional<events::Failed> error;         ///< that the ranks agreed on
  std::optional<events::Failed> uncaught;      ///< of a restore in the middle of the work, if nothing came after it
};

/// Each rank 0 of a run. Most runs have one.
class RunProgress {
 public:
  /// @param record  the name of the file that the event is from: one for each manager
  void take(const std::string& record, const core::LoggedEvent& event) { managers_[record].take(event); }

  [[nodiscard]] const std::map<std::string, ManagerProgress>& managers() const noexcept { return managers_; }

  /// There is at least one handler, and a notice can be sent to the ranks of all: they watch their signals. Managers
  /// without a handler watch none, and are not waited for.
  [[nodiscard]] bool ready() const;
  /// Whether any program has begun to make a handler, or has failed or ended.
  [[nodiscard]] bool has_handler() const;
  /// No handler can use a notice: each has got it, or has ended.
  [[nodiscard]] bool notice_arrived() const;
  /// At least one rank 0 has left after a save, and no other failed or was cut short.
  [[nodiscard]] const events::Exit* saved() const;
  /// The first error.
  [[nodiscard]] const events::Failed* error() const;
  /// The error with which a restore in the middle of the work failed, if nothing came after it.
  [[nodiscard]] const events::Failed* uncaught() const;
  /// The file that a rank 0 was restoring when its record ended.
  [[nodiscard]] std::optional<std::filesystem::path> restoring() const;
  /// The record of a rank 0 ends where no program comes to its end by itself: it was reading a checkpoint, or about to
  /// leave after a notice; or it has left, to be started again, while others had not.
  [[nodiscard]] bool cut_short() const;
  /// A handler was made that did not come to its end: it works, was cut short, has saved for the next start, or failed.
  [[nodiscard]] bool leaves_work() const { return unfinished() || cut_short() || error() != nullptr; }
  /// The directory of a handler that was made, and that the record does not show as closed.
  [[nodiscard]] std::optional<std::filesystem::path> unfinished() const;
  /// A rank 0 has committed a checkpoint beyond the one that it began with.
  [[nodiscard]] bool progressed() const;
  /// The exit code for "saved, start me again": as reported, or else the default of the library.
  [[nodiscard]] int restart_code() const;
  /// Checkpoint directories, each once.
  [[nodiscard]] std::vector<std::filesystem::path> directories() const;

 private:
  /// Those that count. A program no longer counts when another one has opened its directory since, as in a script that
  /// starts a program again until it succeeds.
  [[nodiscard]] std::vector<const ManagerProgress*> current() const;
  /// The first one for which that is true; null if there is none.
  [[nodiscard]] const ManagerProgress* first(bool (*is_meant)(const ManagerProgress&)) const;

  std::map<std::string, ManagerProgress> managers_;
};

/// What came of one start of the program.
struct LaunchResult {
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
LaunchResult judge(const RunProgress& progress, int launcher_code);

/// "exit code 7", "signal SIGKILL (137)".
std::string code_text(int shell_code);

/// Something that happened, for people (text) and for programs (name and fields).
struct SupervisorEvent {
  std::string name;  ///< "start", "ready", "request", "notice_sent", "exit", "end", "restart", ...
  std::string text;
  nlohmann::json fields = nlohmann::json::object();
};

/// An event of the run's record as one of the supervisor's; nothing for those that only tools care about.
std::optional<SupervisorEvent> describe(const core::LoggedEvent& recorded);

// Whether a run that did not finish is started again.

struct RestartLimits {
  int restarts = 0;                             ///< starts after the first one
  std::chrono::milliseconds first_pause{1000};  ///< after a crash; doubles with each crash without progress
  std::chrono::milliseconds longest_pause{60'000};
  int fruitless_runs = 3;  ///< give up after so many in a row that made no progress
};

/// What to do after a run.
struct RestartDecision {
  bool restart = false;
  std::chrono::milliseconds pause{0};  ///< before the restart
  std::string reason;                  ///< why there is no restart; empty if nobody asked for one
};

/// Judges the runs of one supervisor one after the other.
class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits) {}

  /// The checkpoint that the run died reading, if others died of it before: it must be verified before the next start.
  /// To be called once for each run, before `decide`.
  std::optional<std::filesystem::path> file_to_verify(const LaunchResult& launch_result);

  /// @param begins_elsewhere  the checkpoint where the run began is gone
  RestartDecision decide(const LaunchResult& launch_result, bool begins_elsewhere);

  /// Restarts so far.
  [[nodiscard]] int used() const noexcept { return used_; }

 private:
  [[nodiscard]] std::string why_not(const LaunchResult& launch_result) const;
  [[nodiscard]] std::chrono::milliseconds pause_after(const LaunchResult& launch_result) const;

  RestartLimits limits_;
  int used_ = 0;
  int fruitless_ = 0;
  std::map<std::filesystem::path, int> deaths_;  ///< runs that died while they read a file
};

/// Keeps a request until the ranks can get it, and repeats the notice until the record shows that it arrived: a signal
/// that comes while a launcher starts is lost, and one that comes before a rank watches it kills the job.
class NoticePlan {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param patience  how long to wait for a program that reports nothing; then it gets the notice all the same. One
  /// that has opened its checkpoint directory is waited for without a limit: it may have much to restore, and what it
  /// restores is safe.
  explicit NoticePlan(std::chrono::milliseconds patience) : patience_(patience) {}

  /// The job is about to end, for all starts of the program to come too. Only the first call counts.
  void request(Clock::time_point now) { requested_ = requested_.value_or(now); }
  [[nodiscard]] bool requested() const noexcept { return requested_.has_value(); }

  /// The program is started, again.
  void begin_run() { sent_ = 0; }

  /// Whether to send the notice at this moment. True is counted as sent.
  bool send_is_due(const RunProgress& progress, Clock::time_point now);

  /// How often it was sent since the program started.
  [[nodiscard]] int sent() const noexcept { return sent_; }

 private:
  std::chrono::milliseconds patience_;
  std::optional<Clock::time_point> requested_;
  int sent_ = 0;
  Clock::time_point last_sent_;
};

}  // namespace reprieve::supervisor
