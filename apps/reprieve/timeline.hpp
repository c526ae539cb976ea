// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What became of a run: all its starts, how it stands, and where the time went. From its event log. Pure.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "advise.hpp"
#include "core/events.hpp"
#include "status.hpp"
#include "supervisor/run_progress.hpp"
#include "text.hpp"

namespace reprieve::tool {

/// Where the time went; for work the first three and the last, which say what became of it.
enum TimeKind : std::size_t {
  kKept,     ///< steps that a checkpoint or the end of the run has kept
  kLost,     ///< steps that had to be made again, or have to be
  kUnsaved,  ///< steps of a run that works, since its last checkpoint
  kSave,     ///< for which the program stood still for a save
  kRestore,
  kStartup,  ///< from the start to the first step, without the restore
  kDown,     ///< nothing ran: in the queue, for one
  kUnknown,  ///< after the last word of a start that was killed: it worked, or was gone already
};
/// Their names.
inline constexpr std::array kTimeKinds{"kept", "lost", "unsaved", "save", "restore", "startup", "queue", "unknown"};

/// Seconds of each. Together they are the time from the first start to the last event, or to now.
using TimeSums = std::array<double, kTimeKinds.size()>;

/// Steps between two saves. Times are seconds since the first start; those of other structures here too.
struct WorkSpan {
  std::size_t start = 0;
  double begin_s = 0;
  double end_s = 0;
  double work_s = 0;  ///< without the time for saves
  std::optional<std::uint64_t> from = {};
  std::optional<std::uint64_t> to = {};
  TimeKind fate = kUnsaved;

  [[nodiscard]] std::uint64_t steps() const { return from && to && *to > *from ? *to - *from : 0; }
  /// Keeps the part up to @p step, and returns the rest. `from` and `to` are known, and @p step lies between them.
  [[nodiscard]] WorkSpan cut_at(std::uint64_t step);
};

/// What a start continued from.
enum class Source {
  nothing,
  checkpoint,
  local_copy,  ///< in the memory of the nodes
  nodes,       ///< a checkpoint that it made of a node-local copy on other nodes than it needed it on
  flushed,     ///< the same of parts that ranks or nodes had flushed into the directory
};

struct ReportedStart {
  std::optional<TimePoint> time;
  events::Start event;
  double begin_s = 0;
  double end_s = 0;    ///< its last event
  double ready_s = 0;  ///< when it began to work; its end if it did not come so far
  std::optional<double> restore_begin_s;
  std::optional<double> restore_end_s;
  Source source = Source::nothing;
  std::uint64_t saved_by_local =
      0;  ///< steps of the starts before that came back by a node-local copy, and by no checkpoint
  std::optional<std::uint64_t> step_from;
  std::optional<std::uint64_t> step_to;  ///< as reported last
  RunState ending = RunState::gone;
  std::string why;
  TimeSums times{};  ///< with the time until the next start
  std::uint64_t lost_steps = 0;
  /// Of a killed one: so many steps more than it reported may be lost, by its rate and its distance between saves.
  std::optional<std::uint64_t> perhaps_lost_steps;

  /// A node-local copy was of this step, which may be later than its report: so much less is lost perhaps.
  void note_that_it_reached(std::uint64_t step);
};

struct ReportedSave {
  double at_s = 0;
  std::uint64_t number = 0;
  std::optional<std::uint64_t> step;
  std::uint64_t bytes = 0;
  double seconds = 0;
  double blocked_s = 0;
};

/// Times in seconds since the rank had it.
struct ReportedNotice {
  double at_s = 0;
  std::size_t start = 0;
  events::Notice event;
  std::optional<double> grace_s{};  ///< if it came with a deadline
  std::optional<double> agreed_s{};
  std::optional<double> committed_s{};
  std::optional<double> left_s{};
};

/// The last report of a start about its node-local copies.
struct ReportedLocalCopies {
  std::size_t start = 0;
  std::uint64_t count = 0;
  double seconds = 0;  ///< for which one stops the program
  std::uint64_t bytes = 0;
  bool has_partners = false;
};

struct StepPoint {
  std::size_t start = 0;
  double at_s = 0;
  std::uint64_t step = 0;
};

struct RunReport {
  RunStatus status;
  std::vector<ReportedStart> starts;
  std::vector<WorkSpan> spans;
  std::vector<StepPoint> points;
  std::vector<ReportedSave> saves;
  std::vector<ReportedNotice> notices;
  std::vector<ReportedLocalCopies> local_copies;  ///< one for each start that reported some
  TimeSums times{};
  std::uint64_t kept_steps = 0;
  std::uint64_t lost_steps = 0;
  std::uint64_t failed_saves = 0;
  std::uint64_t skipped_saves = 0;
  bool clock_set_back = false;  ///< between two starts: the time between them is not known
  Advice advice;

  [[nodiscard]] double length_s() const { return std::accumulate(times.begin(), times.end(), 0.0); }
};

Json to_json(const RunReport& report, TimePoint now);

/// What every page begins with, and by which it is known as one of ours.
inline constexpr std::string_view kPageMarker = "<!DOCTYPE html><!-- made by reprieve report -->";

/// report.html, with the JSON of the reports in it, from which its script draws. HTML that is well-formed XML too.
/// @param reports  what `report --json` prints  @param now  when the page is made
std::string report_page(const Json& reports, TimePoint now);

// The report as numbers for a monitoring system: the text formats of Prometheus and OpenMetrics. Pure.

/// What such a file begins with, and by which it is known as one of ours.
inline constexpr std::string_view kMetricsMarker = "# HELP reprieve_run_state";

enum class MetricsFormat {
  prometheus,   ///< text exposition format 0.0.4, for the textfile collector of node_exporter
  openmetrics,  ///< 1.0
};

std::string metrics_text(const std::vector<RunReport>& reports, MetricsFormat format, TimePoint now);

/// Which pieces of work are kept, while the events of a run are gone through. Pure.
class WorkAccounting {
 public:
  /// Of all starts so far.
  [[nodiscard]] const std::vector<WorkSpan>& spans() const noexcept { return spans_; }
  /// A piece of work of this start is over; nothing has kept it yet.
  void add(const WorkSpan& span);
  /// How many pieces of this start nothing has kept.
  [[nodiscard]] std::size_t open() const noexcept { return open_.size(); }
  [[nodiscard]] const WorkSpan& open_span(std::size_t place) const { return spans_[open_[place]]; }

  /// The first @p count of these are kept.
  void keep(std::size_t count);
  /// No later start goes back behind what is kept.
  void forget_kept() { kept_.clear(); }
  /// A start resumes from @p step: all work beyond it is lost, whatever had kept it.
  void go_back_to(std::uint64_t step);
  /// Work of the start before that nothing had kept, up to @p step, is there again: a node-local copy held it. Returns
  /// how many steps.
  std::uint64_t bring_back(std::uint64_t step);
  /// The start has ended: this becomes of what nothing has kept.
  void end_start(TimeKind fate);

 private:
  void take_back(std::vector<std::size_t>& places, std::uint64_t step);
  void split(std::size_t place, std::uint64_t step);

  std::vector<WorkSpan> spans_;
  std::vector<std::size_t> open_;          ///< indices of spans of this start
  std::vector<std::size_t> perhaps_lost_;  ///< of the last start that had some
  std::vector<std::size_t> kept_;          ///< those that a later start can still go back behind, oldest first
};

/// The one fold over an event log: each event is taken once, as it comes. Within a start the monotonic clock counts,
/// between two of them the wall clock.
class Timeline {
 public:
  Timeline() = default;
  explicit Timeline(const std::vector<core::LoggedEvent>& events);

  void take(const core::LoggedEvent& logged);

  /// How the last start stands. Nothing if the log has no start.
  /// @param lives  whether a process of that start lives, as far as can be seen from here
  [[nodiscard]] std::optional<RunStatus> status(const std::filesystem::path& directory, bool lives) const;
  /// What saves, restores and notices cost, over all starts.
  [[nodiscard]] supervisor::RunHistory history() const;
  /// All starts. @param status  what `status` says
  [[nodiscard]] RunReport report(const RunStatus& status, const AdviceQuestion& question, TimePoint now) const;

 private:
  /// What the time that passes is counted as.
  enum class Phase { startup, restore, work };
  struct Saving {
    std::optional<std::uint64_t> number;
    std::size_t spans = 0;  ///< open ones, which the save keeps
  };
  /// A moment of the monotonic clock, and the step then.
  struct Mark {
    double time_s = 0;
    std::uint64_t step = 0;
  };

  void on(const auto&) {}  // other events say nothing of the time
  void on(const events::Start& event);
  void on(const events::RestoreStarted& event);
  void on(const events::Restored& event);
  void on(const events::RestoreFailed&) { end_restore(); }
  void on(const events::PassedOver&) { end_restore(); }
  void on(const events::DrainStarted& event);
  void on(const events::LocalCopies& event);
  void on(const events::Ready& event);
  void on(const events::StepReached& event);
  void on(const events::LongestStep& event);
  void on(const events::Notice& event);
  void on(const events::Agreement& event);
  void on(const events::SaveStarted& event);
  void on(const events::SaveFinished& event);
  void on(const events::SaveFailed& event);
  void on(const events::SavePutOff& event);
  void on(const events::SaveSkipped&) { ++report_.skipped_saves; }
  void on(const events::Exit& event);
  void on(const events::WentOn& event);
  void on(const events::Finished& event);

  void pass_time(const core::LoggedEvent& logged);
  void spend(double seconds);
  void end_before(const core::LoggedEvent& start);
  void end_restore();
  void begin_at(std::optional<std::uint64_t> step);
  void begin_work();
  void begin_work_in_retrospect();
  void open_span();
  void close_span();
  void report_step(std::optional<std::uint64_t> step);
  void begin_save(std::uint64_t number, std::optional<std::uint64_t> step);
  void note_costs(const events::SaveFinished& event, double blocked_s);
  void stood_still(double seconds);
  void keep_all();
  /// How long the last start was at work, as far as it reported.
  [[nodiscard]] double observed_s() const { return status_.has_handler ? std::max(0.0, clock_s_ - start_clock_s_) : 0; }
  void count_steps(std::optional<std::uint64_t> step);
  ReportedNotice* open_notice();
  [[nodiscard]] double since(const ReportedNotice& notice) const { return now_s_ - notice.at_s; }
  /// That of the last start. @param lives  as for `status`
  [[nodiscard]] RunState state(bool lives) const;
  /// The same, now that it is over.
  [[nodiscard]] RunState ending() const;
  void end_last_start(const RunStatus& status, TimePoint now);
  void end_start(double gap_s);
  [[nodiscard]] double longest_silence_s(double reported_s);
  void finish_spans(TimeKind fate);
  [[nodiscard]] std::optional<std::uint64_t> steps_in(double seconds) const;
  [[nodiscard]] std::string why();
  [[nodiscard]] std::string why_killed();
  [[nodiscard]] std::string error_text() const;
  ReportedStart& current() { return report_.starts.back(); }

  RunReport report_;                 ///< without sums, spans and advice
  RunStatus status_;                 ///< without what rank 0 reports
  supervisor::RunHistory history_;   ///< without the time of the last start
  supervisor::ChiefProgress chief_;  ///< of the last start
  std::optional<TimePoint> event_time_;
  double now_s_ = 0;  ///< since the first start
  std::optional<double> wall_s_;
  std::optional<double> monotonic_s_;
  double start_clock_s_ = 0;  ///< the monotonic clock at the start, and now
  double clock_s_ = 0;
  Phase phase_ = Phase::startup;
  double startup_s_ = 0;  ///< since the start, or since the restore
  bool saves_ = false;
  bool has_ended_ = false;        ///< with a word, after a handler was ready
  bool saves_by_itself_ = false;  ///< also without a notice
  double interval_s_ = 0;         ///< the longest work between two saves
  bool reports_steps_ = false;    ///< programs with an older library do not
  double longest_step_s_ = 0;
  std::string restoring_;
  std::optional<std::string> save_error_;  ///< of the last save, if nothing has been done since
  std::string put_off_;                    ///< the same of a periodic save after which the run works on
  std::optional<Saving> saving_;
  std::optional<WorkSpan> span_;  ///< the work of now
  WorkAccounting ledger_;
  std::optional<Mark> pace_from_;  ///< when the steps of this start began
  Mark pace_to_;                   ///< its last word
  std::optional<Mark> mark_;       ///< since when no save interrupted the steps
  double save_began_s_ = 0;
  std::optional<double> last_periodic_s_;
};

}  // namespace reprieve::tool
