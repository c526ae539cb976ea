// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The events of a run: one struct for each, with its name and its fields in the log. Rank 0 writes them
/// (`EventLog::write`); every reader gets the same structs back.
///
/// A struct names each field once, in `fields`, for both directions. A `std::optional` without a value is not written.
/// Logs may be of another version, cut, or written by anybody: a field that is missing or of another type keeps its
/// default. Times are in seconds. `run_calls` is the step: the calls of `run`, over all starts.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "reprieve/save.hpp"

namespace reprieve::events {

using Count = std::uint64_t;
using Step = std::optional<Count>;

// The start of a program.

/// A manager has opened the checkpoint directory.
struct Start {
  static constexpr const char* kName = "start";
  std::string host{};  ///< of rank 0, as all that follows
  int pid = 0;
  int world_size = 0;
  std::string directory{};
  Count run = 0;
  std::string library_version{};
  std::optional<nlohmann::json> environment{};  ///< settings that the environment made
  std::optional<std::string> near_directory{};  ///< of near copies, if it takes some
  std::optional<bool> in_new_directory{};       ///< during a drill: the directory was not there before
  static void fields(auto& e, auto&& field) {
    field("host", e.host), field("pid", e.pid), field("world_size", e.world_size), field("directory", e.directory);
    field("run", e.run), field("library_version", e.library_version), field("environment", e.environment);
    field("near_directory", e.near_directory), field("in_new_directory", e.in_new_directory);
  }
};

/// The directory could not be opened. In the run record alone.
struct OpenFailed {
  static constexpr const char* kName = "open_failed";
  std::string directory{};
  std::string error{};  ///< as `to_string(ErrorCode)` names it, as in all that follows
  std::string message{};
  static void fields(auto& e, auto&& field) {
    field("directory", e.directory), field("error", e.error), field("message", e.message);
  }
};

/// A handler is being made. In the run record alone.
struct HandlerBegun {
  static constexpr const char* kName = "handler";
  static void fields(auto&, auto&&) {}
};

struct RestoreStarted {
  static constexpr const char* kName = "restore_started";
  std::string file{};
  static void fields(auto& e, auto&& field) { field("file", e.file); }
};

struct Restored {
  static constexpr const char* kName = "restore";
  std::string file{};  ///< a part of a near copy ends with ".part"
  Count number = 0;
  int world_size = 0;  ///< of the run that saved it
  Count bytes = 0;
  std::string pass{};  ///< "single", "proven" or "unverified": how often the data were read
  double seconds = 0;
  Step run_calls{};
  static void fields(auto& e, auto&& field) {
    field("file", e.file), field("number", e.number), field("world_size", e.world_size), field("bytes", e.bytes);
    field("pass", e.pass), field("seconds", e.seconds), field("run_calls", e.run_calls);
  }
};

struct RestoreFailed {
  static constexpr const char* kName = "restore_failed";
  std::string file{};
  std::string error{};
  std::string message{};
  int origin_rank = -1;
  static void fields(auto& e, auto&& field) {
    field("file", e.file), field("error", e.error), field("message", e.message), field("origin_rank", e.origin_rank);
  }
};

/// A checkpoint is damaged: the next older one is tried.
struct PassedOver {
  static constexpr const char* kName = "passed_over";
  Count number = 0;
  std::string file{};
  std::string reason{};
  static void fields(auto& e, auto&& field) {
    field("number", e.number), field("file", e.file), field("reason", e.reason);
  }
};

/// A damaged checkpoint cost work.
struct Fallback {
  static constexpr const char* kName = "fallback";
  std::string file{};
  std::string instead_of{};
  Step run_calls{};
  Step steps_lost{};  ///< if the damaged one could still tell its step
  static void fields(auto& e, auto&& field) {
    field("file", e.file), field("instead_of", e.instead_of), field("run_calls", e.run_calls);
    field("steps_lost", e.steps_lost);
  }
};

/// From now on a notice is heard.
struct Ready {
  static constexpr const char* kName = "ready";
  Step run_calls{};
  std::vector<std::string> signals{};  ///< that are a notice: "SIGTERM", "SIGUSR1"
  int restart_code = 0;
  std::string platform{};
  std::string device{};
  std::string agreement{};               ///< "threads" or "boundaries"
  Step total_steps{};                    ///< of the whole run, if it says so
  std::optional<std::string> job_end{};  ///< UTC, if it is known
  std::optional<std::string> slurm_job{};
  static void fields(auto& e, auto&& field) {
    field("run_calls", e.run_calls), field("signals", e.signals), field("restart_code", e.restart_code);
    field("platform", e.platform), field("device", e.device), field("agreement", e.agreement);
    field("total_steps", e.total_steps), field("job_end", e.job_end), field("slurm_job", e.slurm_job);
  }
};

/// An earlier start came to its end.
struct AlreadyFinished {
  static constexpr const char* kName = "already_finished";
  Step run_calls{};
  bool refused = false;  ///< this start makes no steps
  static void fields(auto& e, auto&& field) { field("run_calls", e.run_calls), field("refused", e.refused); }
};

// Steps.

/// The longest step, of the slowest rank, since the last such event; before each save and at the end. Short steps are
/// measured several at a time: then it is their mean.
struct LongestStep {
  static constexpr const char* kName = "steps";
  Step run_calls{};
  double longest_step_s = 0;
  static void fields(auto& e, auto&& field) {
    field("run_calls", e.run_calls), field("longest_step_s", e.longest_step_s);
  }
};

/// How far the run is: after 5 s, and later every minute. During a drill ten times a second, in the run record alone.
struct StepReached {
  static constexpr const char* kName = "step";
  Step run_calls{};
  double step_s = 0;
  static void fields(auto& e, auto&& field) { field("run_calls", e.run_calls), field("step_s", e.step_s); }
};

// Notices, and ends.

/// All ranks know of a notice.
struct Notice {
  static constexpr const char* kName = "notice";
  std::string source{};
  std::string message{};
  double age_s = 0;
  int rank = -1;  ///< that had it
  std::string host{};
  std::optional<double> time_left_s{};  ///< if it came with a deadline
  static void fields(auto& e, auto&& field) {
    field("source", e.source), field("message", e.message), field("age_s", e.age_s), field("rank", e.rank);
    field("host", e.host), field("time_left_s", e.time_left_s);
  }
};

/// They stand at the same boundary.
struct Agreement {
  static constexpr const char* kName = "agreement";
  Step run_calls{};
  std::int64_t boundary = 0;
  double seconds_from_notice = 0;
  static void fields(auto& e, auto&& field) {
    field("run_calls", e.run_calls), field("boundary", e.boundary);
    field("seconds_from_notice", e.seconds_from_notice);
  }
};

/// The grace has room for another save: the run works on.
struct TrainOn {
  static constexpr const char* kName = "train_on";
  Step run_calls{};
  double time_left_s = 0;
  static void fields(auto& e, auto&& field) { field("run_calls", e.run_calls), field("time_left_s", e.time_left_s); }
};

/// The state is saved, and the ranks leave.
struct Exit {
  static constexpr const char* kName = "exit";
  Step run_calls{};
  int exit_code = 0;  ///< the restart code
  std::string checkpoint{};
  double seconds_from_notice = 0;
  static void fields(auto& e, auto&& field) {
    field("run_calls", e.run_calls), field("exit_code", e.exit_code), field("checkpoint", e.checkpoint);
    field("seconds_from_notice", e.seconds_from_notice);
  }
};

/// The program works on after `Exit`.
struct WentOn {
  static constexpr const char* kName = "went_on";
  Step run_calls{};
  static void fields(auto& e, auto&& field) { field("run_calls", e.run_calls); }
};

/// An error that all ranks heard.
struct Failed {
  static constexpr const char* kName = "error";
  int rank = -1;
  std::string error{};
  std::string message{};
  Step run_calls{};
  static void fields(auto& e, auto&& field) {
    field("rank", e.rank), field("error", e.error), field("message", e.message), field("run_calls", e.run_calls);
  }
};

struct Finished {
  static constexpr const char* kName = "finished";
  Step run_calls{};
  static void fields(auto& e, auto&& field) { field("run_calls", e.run_calls); }
};

/// Where a notice arrived, by itself. In the run record alone, during a drill.
struct Arrivals {
  static constexpr const char* kName = "arrivals";
  struct OfRank {
    int rank = -1;
    std::string host{};
    std::optional<std::string> source{};  ///< of the notice that the rank had itself, as all below
    std::optional<std::string> message{};
    std::optional<double> age_s{};
    static void fields(auto& e, auto&& field) {
      field("rank", e.rank), field("host", e.host), field("source", e.source), field("message", e.message);
      field("age_s", e.age_s);
    }
  };
  std::vector<OfRank> ranks{};
  static void fields(auto& e, auto&& field) { field("ranks", e.ranks); }
};

// Saves.

struct SaveStarted {
  static constexpr const char* kName = "save_started";
  Count number = 0;
  std::optional<SaveReason> reason{};
  Step run_calls{};
  static void fields(auto& e, auto&& field) {
    field("number", e.number), field("reason", e.reason), field("run_calls", e.run_calls);
  }
};

struct SaveFinished {
  static constexpr const char* kName = "save_finished";
  Count number = 0;
  std::string file{};
  Count bytes = 0;  ///< of state
  double seconds = 0;
  std::optional<double> blocked_seconds{};  ///< for how long the program stood still; none: all the time
  std::optional<SaveReason> reason{};
  Step run_calls{};
  static void fields(auto& e, auto&& field) {
    field("number", e.number), field("file", e.file), field("bytes", e.bytes), field("seconds", e.seconds);
    field("blocked_seconds", e.blocked_seconds), field("reason", e.reason), field("run_calls", e.run_calls);
  }
};

struct SaveFailed {
  static constexpr const char* kName = "save_failed";
  std::string error{};
  std::string message{};
  int origin_rank = -1;
  std::optional<Count> number{};
  static void fields(auto& e, auto&& field) {
    field("error", e.error), field("message", e.message), field("origin_rank", e.origin_rank);
    field("number", e.number);
  }
};

/// The save before was still being written in the background.
struct SaveSkipped {
  static constexpr const char* kName = "save_skipped";
  Count number = 0;
  static void fields(auto& e, auto&& field) { field("number", e.number); }
};

/// An old checkpoint was removed.
struct Retired {
  static constexpr const char* kName = "retired";
  Count number = 0;
  static void fields(auto& e, auto&& field) { field("number", e.number); }
};

// Near copies.

/// Near copies of this start so far; at each power of two, and now and then.
struct NearCopies {
  static constexpr const char* kName = "near_copies";
  Count count = 0;
  double seconds = 0;    ///< for which each stopped the program, on average
  Step step{};           ///< of the newest that is complete on all ranks
  std::string taken{};   ///< UTC
  Count bytes = 0;       ///< of one copy, of all ranks
  bool partner = false;  ///< each part lies on another host too
  static void fields(auto& e, auto&& field) {
    field("count", e.count), field("seconds", e.seconds), field("step", e.step), field("taken", e.taken);
    field("bytes", e.bytes), field("partner", e.partner);
  }
};

struct NearCopyFailed {
  static constexpr const char* kName = "near_copy_failed";
  std::string message{};
  Count failures = 0;
  static void fields(auto& e, auto&& field) { field("message", e.message), field("failures", e.failures); }
};

/// A partner had no room.
struct NearCopyWithoutPartner {
  static constexpr const char* kName = "near_copy_without_partner";
  static void fields(auto&, auto&&) {}
};

struct NearPartDamaged {
  static constexpr const char* kName = "near_part_damaged";
  std::string place{};  ///< "<host>/<file>"
  std::string reason{};
  static void fields(auto& e, auto&& field) { field("place", e.place), field("reason", e.reason); }
};

/// A near copy becomes a checkpoint.
struct DrainStarted {
  static constexpr const char* kName = "drain_started";
  Count number = 0;
  bool brought = false;  ///< its parts lie in the checkpoint directory
  static void fields(auto& e, auto&& field) { field("number", e.number), field("brought", e.brought); }
};

struct Drained {
  static constexpr const char* kName = "drained";
  Count number = 0;
  double seconds = 0;
  static void fields(auto& e, auto&& field) { field("number", e.number), field("seconds", e.seconds); }
};

/// An event of another version of the library.
struct Unknown {
  static constexpr const char* kName = "";
  Step run_calls{};
  static void fields(auto& e, auto&& field) { field("run_calls", e.run_calls); }
};

}  // namespace reprieve::events

namespace reprieve::core {

using Event =
    std::variant<events::Unknown, events::Start, events::OpenFailed, events::HandlerBegun, events::RestoreStarted,
                 events::Restored, events::RestoreFailed, events::PassedOver, events::Fallback, events::Ready,
                 events::AlreadyFinished, events::LongestStep, events::StepReached, events::Notice, events::Agreement,
                 events::TrainOn, events::Exit, events::WentOn, events::Failed, events::Finished, events::Arrivals,
                 events::SaveStarted, events::SaveFinished, events::SaveFailed, events::SaveSkipped, events::Retired,
                 events::NearCopies, events::NearCopyFailed, events::NearCopyWithoutPartner, events::NearPartDamaged,
                 events::DrainStarted, events::Drained>;

/// One line of a log.
struct LoggedEvent {
  Event event;
  std::string time;                   ///< UTC, as `event_time` writes it
  std::optional<double> monotonic_s;  ///< the monotonic clock of rank 0
};

/// `event`, then the times, then the fields.
nlohmann::ordered_json to_json(const LoggedEvent& logged);
nlohmann::json to_json(const SaveReason& reason);
nlohmann::json to_json(const events::Arrivals::OfRank& arrival);

/// Nothing unless the line is an object with an `event`.
std::optional<LoggedEvent> event_from_json(const nlohmann::json& line);
std::optional<LoggedEvent> event_from_text(const std::string& line);

/// The step that an event tells, if it tells one.
events::Step step_of(const Event& event);

}  // namespace reprieve::core
