// SPDX-License-Identifier: BSD-3-Clause
// reprieve report [DIR...]: the page, the numbers for a monitoring system, and the subcommand.

#include <algorithm>
#include <fstream>
#include <iostream>
#include <system_error>

#include "command.hpp"
#include "core/directory.hpp"
#include "files.hpp"
#include "reprieve/version.hpp"
#include "timeline.hpp"

namespace reprieve::tool {

namespace {

constexpr std::string_view kTemplate =
#include "report_template.inc"
    ;

void replace_all(std::string& text, std::string_view old, std::string_view by) {
  for (std::size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + by.size())) {
    text.replace(at, old.size(), by);
  }
}

/// What is between the quotes of a label. Bytes that are not UTF-8 are replaced.
std::string label_text(const std::string& value) {
  const std::string quoted = Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text = Json::parse(quoted).get<std::string>();
  for (const auto& [character, escape] : {std::pair{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}) {
    replace_all(text, character, escape);
  }
  return text;
}

/// One number of one run.
struct Sample {
  std::string suffix;  ///< of the name: "_sum"
  std::string label;   ///< besides the directory: `kind="lost"`
  double value = 0;
};

/// One kind of number of one run.
struct Metric {
  std::string name;
  const char* type;
  const char* help;
  std::vector<Sample> samples;
};

std::vector<Sample> one(auto value) { return {{"", "", static_cast<double>(value)}}; }

std::vector<Sample> states(RunState present) {
  std::vector<Sample> samples;
  for (const RunState state : {RunState::starting, RunState::running, RunState::leaving, RunState::saved,
                               RunState::finished, RunState::failed, RunState::gone, RunState::ended}) {
    samples.push_back({"", fmt::format("state=\"{}\"", to_string(state)), state == present ? 1.0 : 0.0});
  }
  return samples;
}

/// Work that is not saved yet may still become lost or kept, and a counter never goes back.
std::vector<Sample> sums_of_time(const TimeSums& times) {
  std::vector<Sample> samples;
  for (std::size_t kind = 0; kind < times.size(); ++kind) {
    if (kind != kUnsaved) {
      samples.push_back({"", fmt::format("kind=\"{}\"", kTimeKinds[kind]), times[kind]});
    }
  }
  return samples;
}

std::vector<Metric> metrics_of(const RunReport& report, TimePoint now) {
  const std::vector<Sample> unknown;
  const RunStatus& status = report.status;
  const std::optional<SavedState>& saved = status.saved;
  const auto seconds = [](const auto& time) { return std::chrono::duration<double>(time).count(); };
  const auto at_risk = status.at_risk(now);
  double save_s = 0;
  for (const ReportedSave& save : report.saves) {
    save_s += save.seconds;
  }
  return {
      {"reprieve_run_state", "gauge", "1 for the state that the run is in, 0 for the others.", states(status.state)},
      {"reprieve_run_step", "gauge", "Step that the run has reported last.", one(status.reported_step)},
      {"reprieve_run_total_steps", "gauge", "Steps that the run makes in all; absent if it does not say.",
       status.total_steps > 0 ? one(status.total_steps) : unknown},
      {"reprieve_at_risk_seconds", "gauge", "Work that would be lost if the run were killed now; absent if it ended.",
       at_risk ? one(seconds(*at_risk)) : unknown},
      {"reprieve_last_checkpoint_timestamp_seconds", "gauge", "When the last checkpoint was saved, since 1970.",
       saved && saved->time ? one(seconds(saved->time->time_since_epoch())) : unknown},
      {"reprieve_last_checkpoint_bytes", "gauge", "Size of the state in the last checkpoint.",
       saved ? one(saved->bytes) : unknown},
      {"reprieve_saves_total", "counter", "Checkpoints saved.", one(report.saves.size())},
      {"reprieve_failed_saves_total", "counter", "Saves that failed.", one(report.failed_saves)},
      {"reprieve_save_seconds",
       "summary",
       "Time that saves took.",
       {{"_sum", "", save_s}, {"_count", "", static_cast<double>(report.saves.size())}}},
      {"reprieve_starts_total", "counter", "Starts of the run.", one(report.starts.size())},
      {"reprieve_notices_total", "counter", "Termination notices that the ranks agreed on.",
       one(report.notices.size())},
      {"reprieve_lost_steps_total", "counter", "Steps that had to be made again, or have to be, as far as reported.",
       one(report.lost_steps)},
      {"reprieve_time_seconds_total", "counter", "Where the time between the first start and the last event went.",
       sums_of_time(report.times)},
  };
}

/// In OpenMetrics the family of a counter has the name without the ending of its samples.
std::string family_name(std::string name, MetricsFormat format) {
  constexpr std::string_view kEnding = "_total";
  return format == MetricsFormat::openmetrics && name.ends_with(kEnding) ? name.substr(0, name.size() - kEnding.size())
                                                                         : name;
}

}  // namespace

std::string report_page(const Json& reports, TimePoint now) {
  std::string data = reports.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (const auto& [character, escape] : {std::pair{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}}) {
    replace_all(data, character, escape);  // no tag and no entity, whatever a log says
  }
  std::string page(kTemplate);
  replace_all(page, "@MADE@", utc_time(now));
  replace_all(page, "@VERSION@", REPRIEVE_VERSION);
  const std::string_view mark = "@DATA@";
  return page.replace(page.find(mark), mark.size(), data);
}

std::string metrics_text(const std::vector<RunReport>& reports, MetricsFormat format, TimePoint now) {
  std::vector<std::vector<Metric>> runs(reports.size());
  std::ranges::transform(reports, runs.begin(), [&](const RunReport& report) { return metrics_of(report, now); });
  std::string text;
  for (std::size_t i = 0; !runs.empty() && i < runs.front().size(); ++i) {
    const Metric& metric = runs.front()[i];
    const std::string family = family_name(metric.name, format);
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", family, metric.help, metric.type);
    for (std::size_t run = 0; run < runs.size(); ++run) {
      for (const Sample& sample : runs[run][i].samples) {
        text += fmt::format("{}{}{{directory=\"{}\"{}{}}} {}\n", metric.name, sample.suffix,
                            label_text(reports[run].status.directory.string()), sample.label.empty() ? "" : ",",
                            sample.label, sample.value);
      }
    }
  }
  return format == MetricsFormat::openmetrics ? text + "# EOF\n" : text;
}

}  // namespace reprieve::tool

namespace reprieve::tool::report_command {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    R"(Tells what became of every run below the directories, from its event log (events.jsonl): all starts and how each
ended, where the time went, what work was lost and why, how long the saves took, whether the notices came in time, and
what to set. The page is one file of HTML that needs no network and no other file: mail it, print it, keep it.

  kept      work that a checkpoint or the end of the run has kept
  lost      work that had to be done again: steps after the checkpoint that a later start continued from
  unknown   a killed start cannot say when it was killed: what it did after its last word is not known

With --prometheus, --openmetrics or --json no page is written unless --out asks for one. A file that is there and is not
from an earlier report is not written over. Readers never see half a file.

Examples:
  reprieve report checkpoints                            writes report.html
  reprieve report /scratch/me --out - > me.html          all runs below, to standard output
  reprieve report checkpoints --mtbf 6h --grace 2min     what the site says of its nodes and its partition
  reprieve report checkpoints --json | jq '.runs[].times'    where the time went
  reprieve report /scratch --prometheus /var/lib/prometheus/node-exporter/reprieve.prom

Exit codes: 0 written,)";

struct Options {
  std::vector<fs::path> directories;
  std::string page;
  std::string prometheus;
  std::string openmetrics;
  AdviceQuestion question;
  bool json = false;
};

void define(CLI::App& command, Options& options) {
  add_directory(command, options.directories, "Directories to look in, and below");
  command.add_option("--out", options.page, "Where the page goes; - is standard output (default: report.html)")
      ->type_name("FILE");
  command.add_option("--prometheus", options.prometheus, "Numbers in the text format of Prometheus; - as above")
      ->type_name("FILE");
  command.add_option("--openmetrics", options.openmetrics, "The same in the format of OpenMetrics; - as above")
      ->type_name("FILE");
  add_duration(command, "--mtbf", options.question.mtbf_s,
               "For the advice: mean time between failures of the whole job")
      ->default_str("as measured");
  add_duration(command, "--grace", options.question.grace_s,
               "Time from a notice to the kill, where the notice does not tell it")
      ->default_str("not known");
}

std::vector<RunReport> report_below(const Options& options, TimePoint now) {
  std::vector<RunReport> reports;
  for_each_run(options.directories, [&](const Timeline& timeline, const RunStatus& status) {
    reports.push_back(timeline.report(status, options.question, now));
  });
  std::ranges::sort(reports, {}, [](const RunReport& report) { return report.status.directory; });
  if (reports.empty()) {
    throw MissingError(
        "there is no run: no directory here has an event log (events.jsonl) of one. A run makes one in its "
        "checkpoint directory; name that, or a directory above it");
  }
  return reports;
}

/// Only what an earlier report has written may be written over.
void require_ours(const fs::path& file, std::string_view marker) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found) {
    return;
  }
  std::string beginning(marker.size(), '\0');
  if (fs::is_regular_file(status)) {
    std::ifstream(file, std::ios::binary).read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  }
  if (beginning != marker) {
    throw UsageError(core::escaped(file.string()) +
                     " is there already and is not from an earlier report: it is left as it is; name another file, or "
                     "remove it");
  }
}

/// Returns whether it went to a file.
bool write_out(const std::string& name, std::string_view text, std::string_view marker) {
  if (name == "-") {
    std::cout << text;
    return false;
  }
  require_ours(name, marker);
  replace_file(name, [&](std::ostream& out) { out << text; });
  return true;
}

void require_one_for_standard_output(const Options& options) {
  const int count = static_cast<int>(options.json) + static_cast<int>(options.page == "-") +
                    static_cast<int>(options.prometheus == "-") + static_cast<int>(options.openmetrics == "-");
  if (count > 1) {
    throw UsageError(
        "standard output takes one of --json, --out, --prometheus and --openmetrics: name a file for the "
        "others");
  }
}

int run(const Options& options) {
  require_one_for_standard_output(options);
  const TimePoint now = std::chrono::system_clock::now();
  const std::vector<RunReport> reports = report_below(options, now);
  if (!options.prometheus.empty()) {
    write_out(options.prometheus, metrics_text(reports, MetricsFormat::prometheus, now), kMetricsMarker);
  }
  if (!options.openmetrics.empty()) {
    write_out(options.openmetrics, metrics_text(reports, MetricsFormat::openmetrics, now), kMetricsMarker);
  }
  const Json all = list_json(reports, [&](const RunReport& report) { return to_json(report, now); });
  if (options.json) {
    print_json(std::cout, {{"runs", all}});
  }
  const bool is_page_alone = options.prometheus.empty() && options.openmetrics.empty() && !options.json;
  if (is_page_alone || !options.page.empty()) {
    const std::string page = options.page.empty() ? "report.html" : options.page;
    if (write_out(page, report_page(all, now), kPageMarker) && !options.json) {
      std::cout << fmt::format("{}: the report of {}\n", printable(page), count_text(reports.size(), "run"));
    }
  }
  return kGood;
}

}  // namespace

void add(const Tool& tool) {
  add_command(tool, "report", "What became of runs: a page, or numbers for monitoring", kFooter, define, run);
}

}  // namespace reprieve::tool::report_command
