// SPDX-License-Identifier: BSD-3-Clause
#include "run_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "event_walk.hpp"
#include "supervisor/run_history.hpp"

namespace reprieve::tool {

void TimeSums::add(const TimeSums& other) {
  for (const TimeKind& kind : time_kinds()) {
    this->*kind.seconds += other.*kind.seconds;
  }
}

double TimeSums::total_s() const {
  double total = 0;
  for (const TimeKind& kind : time_kinds()) {
    total += this->*kind.seconds;
  }
  return total;
}

std::span<const TimeKind> time_kinds() {
  static constexpr std::array kKinds{
      TimeKind{"kept", "Kept steps", "work that a checkpoint, a near copy or the end of the run has kept",
               &TimeSums::kept_s},
      TimeKind{"lost", "Lost steps", "work that had to be done again, or has to be", &TimeSums::lost_s},
      TimeKind{"unsaved", "Not saved yet", "work since the last checkpoint of a run that goes on",
               &TimeSums::unsaved_s},
      TimeKind{"save", "Saves", "the program stood still", &TimeSums::save_s},
      TimeKind{"restore", "Restore", "a checkpoint was read", &TimeSums::restore_s},
      TimeKind{"startup", "Start-up", "from the start to the first step, without the restore", &TimeSums::startup_s},
      TimeKind{"queue", "Between starts", "nothing ran: in the queue, or nobody had started it", &TimeSums::down_s},
      TimeKind{"unknown", "Unknown", "after the last word of a killed start: it worked on, or was gone already",
               &TimeSums::unknown_s},
  };
  return kKinds;
}

WorkSpan WorkSpan::cut_at(std::uint64_t step) {
  WorkSpan rest = *this;
  const double part = static_cast<double>(step - *from) / static_cast<double>(*to - *from);
  to = rest.from = step;
  work_s *= part;
  end_s = rest.begin_s = begin_s + (end_s - begin_s) * part;
  rest.work_s -= work_s;
  return rest;
}

void ReportedStart::note_that_it_reached(std::uint64_t step) {
  if (perhaps_lost_steps && step_to && step > *step_to) {
    const std::uint64_t told_later = step - *step_to;
    const bool is_more = *perhaps_lost_steps > told_later;
    perhaps_lost_steps = is_more ? std::optional(*perhaps_lost_steps - told_later) : std::nullopt;
  }
}

const char* to_string(Source source) {
  constexpr std::array kNames{"the beginning", "a checkpoint", "a near copy", "a near copy on other nodes",
                              "a near copy that was brought"};
  return kNames.at(static_cast<std::size_t>(source));
}

const char* to_string(Ending ending) {
  constexpr std::array kNames{"working", "saved", "finished", "failed", "killed", "untold"};
  return kNames.at(static_cast<std::size_t>(ending));
}

Quantiles quantiles(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  // The smallest value that so large a part of all does not exceed.
  const auto at = [&](double part) {
    const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(rank, 1) - 1];
  };
  return {at(0.5), at(0.9), values.back()};
}

RunReport report_run(const RunStatus& status, const std::vector<nlohmann::json>& events, const AdviceQuestion& question,
                     TimePoint now) {
  RunReport report = walk_events(status, events, now);
  for (const WorkSpan& span : report.spans) {
    ReportedStart& start = report.starts[span.start];
    TimeSums work;
    switch (span.fate) {
      case Fate::kept:
        work.kept_s = span.work_s;
        report.kept_steps += span.steps();
        break;
      case Fate::lost:
        work.lost_s = span.work_s;
        start.lost_steps += span.steps();
        break;
      case Fate::unsaved:
        work.unsaved_s = span.work_s;
        break;
      case Fate::untold:
        work.unknown_s = span.work_s;
        break;
    }
    start.times.add(work);
  }
  for (const ReportedStart& start : report.starts) {
    report.times.add(start.times);
    report.lost_steps += start.lost_steps;
  }
  report.advice = advise(supervisor::read_history(events), question);
  return report;
}

}  // namespace reprieve::tool
