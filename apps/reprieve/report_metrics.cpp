// SPDX-License-Identifier: BSD-3-Clause
#include "report_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <numeric>

namespace reprieve::tool {

namespace {

/// What is between the quotes of a label.
std::string label_text(const std::string& value) {
  std::string escaped;
  for (const char c : valid_utf8(value)) {
    if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\\' || c == '"') {
      escaped += {'\\', c};
    } else {
      escaped += c;
    }
  }
  return escaped;
}

/// One number of one run.
struct Sample {
  std::string suffix;  ///< of the name: "_sum"
  std::string label;   ///< besides the directory: `kind="lost"`
  double value = 0;
};

struct Metric {
  const char* name;
  const char* type;
  const char* help;
  std::function<std::vector<Sample>(const RunReport&, TimePoint)> samples;
};

std::vector<Sample> one(double value) { return {{"", "", value}}; }

std::vector<Sample> one_if(bool known, double value) { return known ? one(value) : std::vector<Sample>{}; }

std::vector<Sample> states(const RunReport& report, TimePoint) {
  std::vector<Sample> samples;
  for (const RunState state : {RunState::starting, RunState::running, RunState::leaving, RunState::saved,
                               RunState::finished, RunState::failed, RunState::gone, RunState::ended}) {
    samples.push_back({"", fmt::format("state=\"{}\"", to_string(state)), report.status.state == state ? 1.0 : 0.0});
  }
  return samples;
}

/// Work that is not saved yet may still become lost or kept, and a counter never goes back.
std::vector<Sample> sums_of_time(const RunReport& report, TimePoint) {
  std::vector<Sample> samples;
  for (const TimeKind& kind : time_kinds()) {
    if (kind.seconds != &TimeSums::unsaved_s) {
      samples.push_back({"", fmt::format("kind=\"{}\"", kind.id), report.times.*kind.seconds});
    }
  }
  return samples;
}

std::vector<Sample> save_seconds(const RunReport& report, TimePoint) {
  const double sum = std::accumulate(report.saves.begin(), report.saves.end(), 0.0,
                                     [](double so_far, const ReportedSave& save) { return so_far + save.seconds; });
  return {{"_sum", "", sum}, {"_count", "", static_cast<double>(report.saves.size())}};
}

std::vector<Sample> at_risk(const RunReport& report, TimePoint now) {
  const auto seconds = report.status.at_risk(now);
  return one_if(seconds.has_value(), seconds ? seconds->count() : 0);
}

std::vector<Sample> saved_at(const RunReport& report, TimePoint) {
  const auto& saved = report.status.saved;
  const bool is_known = saved && saved->time;
  return one_if(is_known, is_known ? std::chrono::duration<double>(saved->time->time_since_epoch()).count() : 0);
}

double count(std::uint64_t number) { return static_cast<double>(number); }

const std::vector<Metric>& metrics() {
  using Report = const RunReport&;
  static const std::vector<Metric> kMetrics{
      {"reprieve_run_state", "gauge", "1 for the state that the run is in, 0 for the others.", states},
      {"reprieve_run_step", "gauge", "Step as the run told it last.",
       [](Report report, TimePoint) { return one(count(report.status.told_step)); }},
      {"reprieve_run_total_steps", "gauge", "Steps that the run makes in all; absent if it does not say.",
       [](Report report, TimePoint) {
         return one_if(report.status.total_steps > 0, count(report.status.total_steps));
       }},
      {"reprieve_at_risk_seconds", "gauge", "Work that would be lost if the run were killed now; absent if it ended.",
       at_risk},
      {"reprieve_last_checkpoint_timestamp_seconds", "gauge", "When the last checkpoint was saved, since 1970.",
       saved_at},
      {"reprieve_last_checkpoint_bytes", "gauge", "Size of the state in the last checkpoint.",
       [](Report report, TimePoint) {
         return one_if(report.status.saved.has_value(), report.status.saved ? count(report.status.saved->bytes) : 0);
       }},
      {"reprieve_saves_total", "counter", "Checkpoints saved.",
       [](Report report, TimePoint) { return one(count(report.saves.size())); }},
      {"reprieve_failed_saves_total", "counter", "Saves that failed.",
       [](Report report, TimePoint) { return one(count(report.failed_saves)); }},
      {"reprieve_save_seconds", "summary", "Time that saves took.", save_seconds},
      {"reprieve_starts_total", "counter", "Starts of the run.",
       [](Report report, TimePoint) { return one(count(report.starts.size())); }},
      {"reprieve_notices_total", "counter", "Termination notices that the ranks agreed on.",
       [](Report report, TimePoint) { return one(count(report.notices.size())); }},
      {"reprieve_lost_steps_total", "counter", "Steps that had to be made again, or have to be, as far as told.",
       [](Report report, TimePoint) { return one(count(report.lost_steps)); }},
      {"reprieve_time_seconds_total", "counter", "Where the time between the first start and the last event went.",
       sums_of_time},
  };
  return kMetrics;
}

/// In OpenMetrics the family of a counter has the name without the ending of its samples.
std::string family_name(const Metric& metric, MetricsFormat format) {
  const std::string name = metric.name;
  constexpr std::string_view kEnding = "_total";
  return format == MetricsFormat::openmetrics && name.ends_with(kEnding) ? name.substr(0, name.size() - kEnding.size())
                                                                         : name;
}

std::string sample_line(const Metric& metric, const RunReport& report, const Sample& sample) {
  return fmt::format("{}{}{{directory=\"{}\"{}{}}} {}\n", metric.name, sample.suffix,
                     label_text(report.status.directory.string()), sample.label.empty() ? "" : ",", sample.label,
                     sample.value);
}

}  // namespace

std::string metrics_text(const std::vector<RunReport>& reports, MetricsFormat format, TimePoint now) {
  std::string text;
  for (const Metric& metric : metrics()) {
    std::string lines;
    for (const RunReport& report : reports) {
      for (const Sample& sample : metric.samples(report, now)) {
        lines += sample_line(metric, report, sample);
      }
    }
    const std::string family = family_name(metric, format);
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n{}", family, metric.help, family, metric.type, lines);
  }
  return format == MetricsFormat::openmetrics ? text + "# EOF\n" : text;
}

}  // namespace reprieve::tool
