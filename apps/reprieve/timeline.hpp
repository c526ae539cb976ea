// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What became of a run: all its starts, how it stands, and where the time went. From its event log. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
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
  /// Steps of the starts before that came back by a node-local copy, and by no checkpoint.
  std::uint64_t saved_by_local = 0;
  std::optional<std::uint64_t> step_from;
  std::optional<std::uint64_t> step_to;  ///< as reported last
  RunState ending = RunState::gone;
  std::string why;
  TimeSums times{};  ///< with the time until the next start
  std::uint64_t lost_steps = 0;
  /// Of a killed one: so many steps more than it reported may be lost, by its rate and its distance between saves.
  std::optional<std::uint64_t> perhaps_lost_steps;
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

/// The one fold over an event log.
class Timeline {
 public:
  explicit Timeline(const std::vector<core::LoggedEvent>& events = {});

  /// How the last start stands. Nothing if the log has no start.
  /// @param lives  whether a process of that start lives, as far as can be seen from here
  [[nodiscard]] std::optional<RunStatus> status(const std::filesystem::path& directory, bool lives) const;
  /// What saves, restores and notices cost, over all starts.
  [[nodiscard]] supervisor::RunHistory history() const;
  /// All starts. @param status  what `status` says
  [[nodiscard]] RunReport report(const RunStatus& status, const AdviceQuestion& question, TimePoint now) const;

 private:
  class Fold;
  std::shared_ptr<const Fold> fold_;
};

}  // namespace reprieve::tool
