// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The events of a run: one struct for each, with its name and its fields in the log; and the log. Rank 0 writes them
/// (`EventLog::write`), and some the supervisor; every reader gets the same structs back.
///
/// The last line of a struct lists its fields, for both directions. A `std::optional` without a value is not written.
/// Logs may be of another version, cut, or written by anybody: a field that is missing or of another type keeps its
/// default. Times are in seconds. `run_calls` is the step: the calls of `run`, over all starts.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/directory.hpp"
#include "core/json_fields.hpp"
#include "reprieve/save.hpp"

namespace reprieve {

/// For the fields of events.
nlohmann::ordered_json json_of(const SaveReason& reason);
bool read(const nlohmann::json& json, SaveReason& reason);

}  // namespace reprieve

namespace reprieve::events {

#define REPRIEVE_NAME(name) static constexpr const char* kName = name;
#define REPRIEVE_EVENT(name, ...) \
  REPRIEVE_NAME(name)             \
  REPRIEVE_FIELDS(__VA_ARGS__)

using Count = std::uint64_t;
using Step = std::optional<Count>;

// The start of a program.

/// A manager has opened the checkpoint directory.
struct Start {
  std::string host{};  ///< of rank 0, as all that follows
  int pid = 0;
  int world_size = 0;
  std::string directory{};
  Count run = 0;
  std::string library_version{};
  std::optional<nlohmann::json> environment{};   ///< settings that the environment made
  std::optional<std::string> local_directory{};  ///< of node-local copies, if it takes some
  std::optional<bool> in_new_directory{};        ///< during a drill: the directory was not there before
  REPRIEVE_EVENT("start", host, pid, world_size, directory, run, library_version, environment, local_directory,
                 in_new_directory)
};

/// The directory could not be opened. In the run record alone.
struct OpenFailed {
  std::string directory{};
  std::string error{};  ///< as `to_string(ErrorCode)` names it, as in all that follows
  std::string message{};
  REPRIEVE_EVENT("open_failed", directory, error, message)
};

/// A handler is being made. In the run record alone.
struct HandlerBegun {
  REPRIEVE_NAME("handler")
  static void fields(auto&, auto&&) {}
};

struct RestoreStarted {
  std::string file{};
  REPRIEVE_EVENT("restore_started", file)
};

struct Restored {
  std::string file{};  ///< a part of a node-local copy ends with ".part"
  Count number = 0;
  int world_size = 0;  ///< of the run that saved it
  Count bytes = 0;
  std::string pass{};  ///< "single", "verified" or "unverified": how often the data were read
  double seconds = 0;
  Step run_calls{};
  REPRIEVE_EVENT("restore", file, number, world_size, bytes, pass, seconds, run_calls)
};

struct RestoreFailed {
  std::string file{};
  std::string error{};
  std::string message{};
  int origin_rank = -1;
  REPRIEVE_EVENT("restore_failed", file, error, message, origin_rank)
};

/// A checkpoint is corrupt: the next older one is tried.
struct PassedOver {
  Count number = 0;
  std::string file{};
  std::string reason{};
  REPRIEVE_EVENT("passed_over", number, file, reason)
};

/// A corrupt checkpoint cost work.
struct Fallback {
  std::string file{};
  std::string instead_of{};
  Step run_calls{};
  Step steps_lost{};  ///< if the step of the corrupt one could still be read
  REPRIEVE_EVENT("fallback", file, instead_of, run_calls, steps_lost)
};

/// From now on a notice is received.
struct Ready {
  Step run_calls{};
  std::vector<std::string> signals{};  ///< that are a notice: "SIGTERM", "SIGUSR1"
  int restart_code = 0;
  std::string platform{};
  std::string device{};
  std::string agreement{};               ///< "threads" or "boundaries"
  Step total_steps{};                    ///< of the whole run, if it says so
  std::optional<std::string> job_end{};  ///< UTC, if it is known
  std::optional<std::string> slurm_job{};
  REPRIEVE_EVENT("ready", run_calls, signals, restart_code, platform, device, agreement, total_steps, job_end,
                 slurm_job)
};

/// An earlier start came to its end, and the state is that of its last step.
struct AlreadyFinished {
  Step run_calls{};
  REPRIEVE_EVENT("already_finished", run_calls)
};

// Steps.

/// The longest step, of the slowest rank, since the last such event; before each save and at the end. Short steps are
/// measured several at a time: then it is their mean.
struct LongestStep {
  Step run_calls{};
  double longest_step_s = 0;
  REPRIEVE_EVENT("steps", run_calls, longest_step_s)
};

/// How far the run is: after 5 s, and later every minute. During a drill ten times a second, in the run record alone.
struct StepReached {
  Step run_calls{};
  double step_s = 0;
  REPRIEVE_EVENT("step", run_calls, step_s)
};

// Notices, and ends.

/// All ranks know of a notice.
struct Notice {
  std::string source{};
  std::string message{};
  double age_s = 0;
  int rank = -1;  ///< that had it
  std::string host{};
  std::optional<double> time_left_s{};  ///< if it came with a deadline
  REPRIEVE_EVENT("notice", source, message, age_s, rank, host, time_left_s)
};

/// They stand at the same boundary.
struct Agreement {
  Step run_calls{};
  std::int64_t boundary = 0;
  double seconds_from_notice = 0;
  REPRIEVE_EVENT("agreement", run_calls, boundary, seconds_from_notice)
};

/// The grace has room for another save: the run works on.
struct TrainOn {
  Step run_calls{};
  double time_left_s = 0;
  REPRIEVE_EVENT("train_on", run_calls, time_left_s)
};

/// The state is saved, and the ranks leave.
struct Exit {
  Step run_calls{};
  int exit_code = 0;  ///< the restart code
  std::string checkpoint{};
  double seconds_from_notice = 0;
  REPRIEVE_EVENT("exit", run_calls, exit_code, checkpoint, seconds_from_notice)
};

/// The program works on after `Exit`.
struct WentOn {
  Step run_calls{};
  REPRIEVE_EVENT("went_on", run_calls)
};

/// An error that all ranks got.
struct Failed {
  int rank = -1;
  std::string error{};
  std::string message{};
  Step run_calls{};
  REPRIEVE_EVENT("error", rank, error, message, run_calls)
};

struct Finished {
  Step run_calls{};
  REPRIEVE_EVENT("finished", run_calls)
};

/// Where a notice arrived, by itself. In the run record alone, during a drill.
struct Arrivals {
  struct OfRank {
    int rank = -1;
    std::string host{};
    std::optional<std::string> source{};  ///< of the notice that the rank had itself, as all below
    std::optional<std::string> message{};
    std::optional<double> age_s{};
    REPRIEVE_FIELDS(rank, host, source, message, age_s)
  };
  std::vector<OfRank> ranks{};
  REPRIEVE_EVENT("arrivals", ranks)
};

/// What the steps changed in the memory of rank 0. In the run record alone, during a drill.
struct MemoryChanges {
  struct Object {
    std::string name{};  ///< of a global variable; empty: a heap block
    Count bytes = 0;
    REPRIEVE_FIELDS(name, bytes)
  };
  Count steps = 0;                       ///< between which the memory was compared
  Count objects = 0;                     ///< that were looked at
  std::vector<Object> uncovered{};       ///< changed, and no variable lies in them; the largest first
  std::vector<std::string> unchanged{};  ///< variables, no small ones, that no step changed
  REPRIEVE_EVENT("memory_changes", steps, objects, uncovered, unchanged)
};

// Saves.

struct SaveStarted {
  Count number = 0;
  std::optional<SaveReason> reason{};
  Step run_calls{};
  REPRIEVE_EVENT("save_started", number, reason, run_calls)
};

struct SaveFinished {
  Count number = 0;
  std::string file{};
  Count bytes = 0;  ///< of state
  double seconds = 0;
  std::optional<double> blocked_seconds{};  ///< for how long the program stood still; none: all the time
  std::optional<SaveReason> reason{};
  Step run_calls{};
  REPRIEVE_EVENT("save_finished", number, file, bytes, seconds, blocked_seconds, reason, run_calls)
};

struct SaveFailed {
  std::string error{};
  std::string message{};
  int origin_rank = -1;
  std::optional<Count> number{};
  REPRIEVE_EVENT("save_failed", error, message, origin_rank, number)
};

/// The run works on after a periodic save that failed, and tries again at the next interval.
struct SavePutOff {
  Count failures = 0;  ///< in a row
  Step run_calls{};
  REPRIEVE_EVENT("save_put_off", failures, run_calls)
};

/// The save before was still being written in the background.
struct SaveSkipped {
  Count number = 0;
  REPRIEVE_EVENT("save_skipped", number)
};

/// An old checkpoint was removed.
struct Retired {
  Count number = 0;
  REPRIEVE_EVENT("retired", number)
};

// Node-local copies.

/// Node-local copies of this start so far; at each power of two, and now and then.
struct LocalCopies {
  Count count = 0;
  double seconds = 0;    ///< for which each stopped the program, on average
  Step step{};           ///< of the newest that is complete on all ranks
  std::string taken{};   ///< UTC
  Count bytes = 0;       ///< of one copy, of all ranks
  bool partner = false;  ///< each part lies on another host too
  Step partner_step{};   ///< of the newest copy for which that is true
  std::string partner_taken{};
  REPRIEVE_EVENT("local_copies", count, seconds, step, taken, bytes, partner, partner_step, partner_taken)
};

/// The first node-local copy of a start, and the first after each checkpoint.
struct LocalCopyBegun {
  Step step{};
  REPRIEVE_EVENT("local_copy_begun", step)
};

struct LocalCopyFailed {
  std::string message{};
  Count failures = 0;
  REPRIEVE_EVENT("local_copy_failed", message, failures)
};

/// A partner had no room.
struct LocalCopyWithoutPartner {
  REPRIEVE_NAME("local_copy_without_partner")
  static void fields(auto&, auto&&) {}
};

struct LocalPartCorrupt {
  std::string place{};  ///< "<host>/<file>"
  std::string reason{};
  REPRIEVE_EVENT("local_part_corrupt", place, reason)
};

/// A node-local copy becomes a checkpoint.
struct DrainStarted {
  Count number = 0;
  bool flushed = false;  ///< its parts lie in the checkpoint directory
  REPRIEVE_EVENT("drain_started", number, flushed)
};

struct Drained {
  Count number = 0;
  double seconds = 0;
  REPRIEVE_EVENT("drained", number, seconds)
};

// The command of `reprieve run --after-commit`. The supervisor writes these, with the clock of its own host.

struct AfterCommitStarted {
  std::string file{};  ///< the checkpoint
  std::string host{};  ///< of the supervisor
  int pid = 0;
  int attempt = 0;   ///< from 1 on
  int attempts = 0;  ///< at most
  REPRIEVE_EVENT("after_commit_started", file, host, pid, attempt, attempts)
};

struct AfterCommit {
  std::string file{};
  int code = 0;
  double seconds = 0;
  int attempt = 0;
  int attempts = 0;
  REPRIEVE_EVENT("after_commit", file, code, seconds, attempt, attempts)
};

struct AfterCommitFailed {
  std::string file{};
  int code = 0;
  double seconds = 0;
  int attempt = 0;
  int attempts = 0;
  std::string message{};  ///< its last words
  REPRIEVE_EVENT("after_commit_failed", file, code, seconds, attempt, attempts, message)
};

/// The command failed, and the checkpoint is no longer there.
struct AfterCommitRetired {
  std::string file{};
  REPRIEVE_EVENT("after_commit_retired", file)
};

/// An event of another version of the library.
struct Unknown {
  Step run_calls{};
  REPRIEVE_EVENT("", run_calls)
};

#undef REPRIEVE_EVENT
#undef REPRIEVE_NAME

}  // namespace reprieve::events

namespace reprieve::core {

using Event =
    std::variant<events::Unknown, events::Start, events::OpenFailed, events::HandlerBegun, events::RestoreStarted,
                 events::Restored, events::RestoreFailed, events::PassedOver, events::Fallback, events::Ready,
                 events::AlreadyFinished, events::LongestStep, events::StepReached, events::Notice, events::Agreement,
                 events::TrainOn, events::Exit, events::WentOn, events::Failed, events::Finished, events::Arrivals,
                 events::MemoryChanges, events::SaveStarted, events::SaveFinished, events::SaveFailed,
                 events::SavePutOff, events::SaveSkipped, events::Retired, events::LocalCopies, events::LocalCopyBegun,
                 events::LocalCopyFailed, events::LocalCopyWithoutPartner, events::LocalPartCorrupt,
                 events::DrainStarted, events::Drained, events::AfterCommitStarted, events::AfterCommit,
                 events::AfterCommitFailed, events::AfterCommitRetired>;

/// One line of a log.
struct LoggedEvent {
  Event event;
  std::string time;                   ///< UTC, as `event_time` writes it
  std::optional<double> monotonic_s;  ///< the monotonic clock of rank 0
};

/// `event`, then the times, then the fields.
nlohmann::ordered_json to_json(const LoggedEvent& logged);

/// Nothing unless the line is an object with an `event`.
std::optional<LoggedEvent> event_from_json(const nlohmann::json& line);
std::optional<LoggedEvent> event_from_text(const std::string& line);

/// The step of an event, if it has one.
events::Step step_of(const Event& event);

// The event log: one JSON object per line, appended to `<checkpoint directory>/events.jsonl`.

/// The name of the event log in a checkpoint directory.
inline constexpr const char* kEventLogName = "events.jsonl";

/// Appends events. Every line is one write(2) with O_APPEND, so lines of overlapping runs do not mix. A line that a
/// crash or a full disk cut short spoils no other: the next one starts on a line of its own. Events are for people and
/// tools: a failure to write one is logged once and not thrown.
class EventLog {
 public:
  /// Not yet open: records nothing.
  EventLog() = default;
  explicit EventLog(const std::filesystem::path& file);
  ~EventLog();
  EventLog(EventLog&& other) noexcept = default;
  EventLog& operator=(EventLog&& other) noexcept = default;

  /// Writes the line, with the time of now.
  void write(const Event& event);

 private:
  void report_failure(const std::string& problem);

  Descriptor descriptor_;
  bool failed_ = false;  ///< a failure was logged
  bool torn_ = false;    ///< the file ends in the middle of a line
  std::filesystem::path file_;
};

// Reading the event log that EventLog writes.

/// More of a log is not read, so that a broken one takes no memory without end: some hundred years of one run.
inline constexpr std::size_t kLongestLog = std::size_t{256} << 20;
/// For who needs the newest events alone: some hundred of them. A start does not wait for a long log.
inline constexpr std::size_t kNewestEvents = std::size_t{64} << 10;

/// The events of a log, oldest first. Lines that are not JSON objects (cut by a crash, or foreign) are passed over, and
/// so is what lies more than @p tail_bytes before the end of the file. Empty if the file does not exist or cannot be
/// read.
std::vector<LoggedEvent> read_events(const std::filesystem::path& file, std::size_t tail_bytes = kNewestEvents);

/// Reads what is added to an event log. A line that is not whole waits for its rest. A log that has become shorter is
/// another one, and is read from its beginning. Not thread-safe.
class LogFollower {
 public:
  /// @param from_end  what is in the log already does not count
  explicit LogFollower(std::filesystem::path file, bool from_end = false);

  /// What is new since the last call. @throws StorageError if the log cannot be read
  [[nodiscard]] std::vector<LoggedEvent> next();

 private:
  std::filesystem::path file_;
  std::uintmax_t offset_ = 0;
};

/// A time as the events have it ("2026-03-01T12:00:00.000000Z"): later ones are greater as texts too.
std::string event_time(std::chrono::system_clock::time_point time);

/// The time that a text in UTC stands for, to the second; nothing if it is none. @param format  for strptime; a
/// fraction of a second may follow @param end  of the text
std::optional<std::chrono::system_clock::time_point> utc_time(const std::string& text, const char* format,
                                                              std::string_view end);
/// "2026-03-01T12:00:00Z", with or without a fraction of a second; nothing for anything else.
std::optional<std::chrono::system_clock::time_point> time_of_event(const std::string& text);

}  // namespace reprieve::core
