// SPDX-License-Identifier: BSD-3-Clause
#include "report_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "core/log.hpp"
#include "report_charts.hpp"
#include "reprieve/version.hpp"

namespace reprieve::tool {

namespace {

/// Shows each time in the local time as well. XML: no "less than" and no "and" in it.
constexpr const char* kScript =
    "document.querySelectorAll('time').forEach(function (t) {\n"
    "  t.title = new Date(t.dateTime).toLocaleString() + ' here';\n"
    "});\n";

/// The page asks nobody for anything, whatever a log may say.
constexpr const char* kPolicy =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
    "'unsafe-inline'\"/>\n";

std::string overview(const std::vector<RunReport>& reports) {
  std::string rows;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const RunReport& report = reports[i];
    rows += fmt::format(
        "<tr><td class=\"w\"><a href=\"#run-{}\">{}</a></td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
        i + 1, html(report.status.directory.string()), to_string(report.status.state), report.starts.size(),
        span_text(report.length_s()), share_text(report.times.kept_s, report.length_s()),
        span_text(report.times.lost_s));
  }
  return "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>Run</th><th>State</th><th "
         "class=\"n\">Starts</th><th "
         "class=\"n\">Time</th><th class=\"n\">Kept</th><th class=\"n\">Lost</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

}  // namespace

std::string time_element(TimePoint time) {
  std::string text = utc_time(time);
  const std::string machine = text;
  text[text.find('T')] = ' ';
  text.pop_back();
  return fmt::format("<time datetime=\"{}\">{} UTC</time>", machine, text);
}

std::string kept_text(const RunReport& report) {
  std::string text =
      fmt::format("Of {} between the first start and {}, {} became steps that were kept", span_text(report.length_s()),
                  report.starts.back().ending == Ending::working ? "now" : "the last event",
                  share_text(report.times.kept_s, report.length_s()));
  const auto add = [&](double seconds, const char* before, const char* after) {
    if (seconds > 0) {
      text += fmt::format("; {}{} ({}) {}", before, share_text(seconds, report.length_s()), span_text(seconds), after);
    }
  };
  add(report.times.lost_s, "", "was lost work");
  add(report.times.down_s, "in ", "nothing ran");
  add(report.times.unknown_s, "of ", "nothing is known");
  return text + ".";
}

std::string report_page(const std::vector<RunReport>& reports, TimePoint now) {
  const std::string title =
      reports.size() == 1 ? reports.front().status.directory.string() : count_text(reports.size(), "run");
  std::string page(kPageMarker);
  page += fmt::format(
      "\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n{}<title>Report: {}</title>\n",
      kPolicy, html(title));
  page += "<style>";
  page += page_style();
  page += "</style>\n</head>\n<body>\n" + chart_patterns();
  page += fmt::format("<header><h1>What became of {}</h1>\n<p class=\"soft\">made {}</p></header>\n",
                      reports.size() == 1 ? "the run" : html(title), time_element(now));
  if (reports.size() > 1) {
    page += overview(reports);
  }
  for (std::size_t i = 0; i < reports.size(); ++i) {
    page += run_section(reports[i], i + 1, now);
  }
  page += "<footer>By <code>reprieve report</code> " REPRIEVE_VERSION
          ", from the event logs (events.jsonl) of the checkpoint directories. Times within a start are those of its "
          "monotonic clock, times between starts those of the wall clock.</footer>\n<script>\n";
  page += kScript;
  return page + "</script>\n</body>\n</html>\n";
}

namespace {

/// More rows than that nobody reads; --json has them all.
constexpr std::size_t kMostRows = 400;
constexpr std::size_t kMostLosses = 10;

std::string tile(const char* title, const std::string& value, const std::string& note = "") {
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", title, value,
                     note.empty() ? "" : "<small>" + note + "</small>");
}

std::string tiles(const RunReport& report, TimePoint now) {
  const RunStatus& status = report.status;
  std::string saved_note = "none";
  if (status.saved) {
    saved_note = fmt::format("{}{}", status.saved->time ? time_element(*status.saved->time) + ", " : "",
                             core::size_text(status.saved->bytes));
  }
  std::string text = tile("State", to_string(status.state), html(first_line(status.message)));
  text += tile("Step", std::to_string(status.told_step),
               status.steps_per_second ? fmt::format("{:.3g} a second", *status.steps_per_second) : "");
  text += tile("Last checkpoint", status.saved ? std::to_string(status.saved->number) : "-", saved_note);
  text += tile("Starts", std::to_string(report.starts.size()), count_text(report.notices.size(), "notice"));
  text += tile("Lost work", span_text(report.times.lost_s), count_text(report.lost_steps, "step"));
  if (const auto left = status.time_left(now)) {
    text += tile("Time left", span_text(left->count()), fmt::format("to step {}, at this pace", status.total_steps));
  }
  if (status.near) {
    text += tile(
        "Last near copy", std::to_string(status.near->step),
        fmt::format("{}{} of memory{}", status.near->time ? time_element(*status.near->time) + ", " : "",
                    core::size_text(status.near->memory()), status.near->has_partners ? ", on partner nodes too" : ""));
  }
  if (const auto at_risk = status.at_risk(now)) {
    const auto with_nodes = status.at_risk_with_nodes(now);
    text += tile("At risk now", span_text(at_risk->count()),
                 status.near ? "since the last near copy; " + span_text(with_nodes->count()) + " if its nodes are lost"
                             : "since the last checkpoint");
  }
  return "<dl class=\"tiles\">\n" + text + "</dl>\n";
}

std::string time_table(const RunReport& report) {
  std::string rows;
  for (const TimeKind& kind : time_kinds()) {
    const double seconds = report.times.*kind.seconds;
    std::string steps;
    if (kind.seconds == &TimeSums::kept_s) {
      steps = std::to_string(report.kept_steps);
    } else if (kind.seconds == &TimeSums::lost_s) {
      steps = std::to_string(report.lost_steps);
    }
    rows += fmt::format(
        "<tr><td class=\"t\">{} {}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"w wide\">{}</td></tr>\n",
        swatch(kind.id), kind.title, seconds > 0 ? span_text(seconds) : "-", share_text(seconds, report.length_s()),
        steps, kind.meaning);
  }
  rows += fmt::format(
      "<tr><th>Together</th><th class=\"n\">{}</th><th class=\"n\">{}</th><th class=\"n\"></th><th "
      "class=\"wide\"></th></tr>\n",
      span_text(report.length_s()), report.length_s() > 0 ? "100 %" : "");
  return "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>What</th><th class=\"n\">Time</th><th "
         "class=\"n\">Share</th><th "
         "class=\"n\">Steps</th><th class=\"wide\">Meaning</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

std::string honesty(const RunReport& report) {
  std::string text;
  if (report.times.unknown_s > 0) {
    text +=
        "<p class=\"soft\">A killed start cannot say when it was killed. The time after its last word is counted as "
        "unknown for as long as it can have worked without another one: a run tells its step at least every minute, "
        "and "
        "when it saves. What is lost is therefore at least what is told here.</p>\n";
  }
  if (report.clock_set_back) {
    text +=
        "<p class=\"soft\">Between two starts the clock of the machine was set back, or the starts overlapped: the "
        "time between these is counted as none.</p>\n";
  }
  return text;
}

/// What to do about it.
std::string remedy(const RunReport& report, const ReportedStart& start, bool had_notice) {
  if (report.saves.empty() || report.saves.front().at_s > start.end_s) {
    return "Nothing had been saved until then: set <code>save_every_s</code> or <code>save_every_steps</code>, by "
           "which the "
           "run saves now and then.";
  }
  if (start.ending == Ending::failed) {
    return "The error is told above; the work since the last checkpoint was lost with it.";
  }
  if (start.ending != Ending::killed) {
    return "A later start went on from an older step: the newest checkpoint was damaged or taken away, or the run "
           "began anew.";
  }
  if (had_notice) {
    return "The grace was too short, or the save too slow: the advice below says how much is needed.";
  }
  return "No notice reached the ranks. If the platform gives one, <code>reprieve drill</code> shows where it is lost; "
         "against failures without notice, save as often as the advice below says.";
}

std::string ending_text(Ending ending) { return ending == Ending::killed ? "was killed" : to_string(ending); }

std::string loss_text(const RunReport& report, std::size_t number) {
  const ReportedStart& start = report.starts[number];
  const bool had_notice = std::ranges::any_of(
      report.notices, [&](const ReportedNotice& notice) { return notice.start == number && !notice.committed_s; });
  std::string text = fmt::format("<p><strong>Start {}</strong>{} {}{}: ", number + 1,
                                 start.host.empty() ? "" : " on " + html(start.host), ending_text(start.ending),
                                 start.why.empty() ? "" : " (" + html(start.why) + ")");
  text += start.times.lost_s > 0 ? span_text(start.times.lost_s) + " of work was lost" : "no work is known to be lost";
  if (start.lost_steps > 0) {
    text += ", " + count_text(start.lost_steps, "step");
  }
  if (start.times.unknown_s > 0) {
    text += fmt::format("; perhaps up to {} more, after its last word", span_text(start.times.unknown_s));
  }
  if (start.perhaps_lost_steps) {
    text += fmt::format(" (about {})", count_text(*start.perhaps_lost_steps, "step"));
  }
  return fmt::format("<div class=\"loss\">{}.</p>\n<p class=\"soft\">{}</p></div>\n", text,
                     remedy(report, start, had_notice));
}

/// The greatest losses first.
std::string losses(const RunReport& report) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < report.starts.size(); ++i) {
    const ReportedStart& start = report.starts[i];
    if (start.ending == Ending::killed || start.ending == Ending::failed || start.times.lost_s > 0) {
      places.push_back(i);
    }
  }
  const auto cost = [&](std::size_t i) { return report.starts[i].times.lost_s + report.starts[i].times.unknown_s; };
  std::ranges::stable_sort(places, std::greater<>(), cost);
  std::string text;
  for (std::size_t i = 0; i < std::min(places.size(), kMostLosses); ++i) {
    text += loss_text(report, places[i]);
  }
  if (places.size() > kMostLosses) {
    text += fmt::format("<p class=\"soft\">{} more, with smaller losses, are in the table of starts.</p>\n",
                        places.size() - kMostLosses);
  }
  return text.empty() ? "<p>Nothing: no start was killed or failed.</p>\n" : text;
}

std::string quantile_row(const char* name, std::size_t count, const Quantiles& values,
                         const std::function<std::string(double)>& text) {
  return fmt::format(
      "<tr><td class=\"t\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
      "class=\"n\">{}</td></tr>\n",
      name, count, text(values.median), text(values.upper), text(values.greatest));
}

std::vector<double> of_saves(const RunReport& report, double (*value)(const ReportedSave&)) {
  std::vector<double> values;
  values.reserve(report.saves.size());
  for (const ReportedSave& save : report.saves) {
    values.push_back(value(save));
  }
  return values;
}

std::string failures_of_saves(const RunReport& report) {
  std::string text;
  if (report.failed_saves > 0) {
    text += fmt::format("<p><strong>{} failed.</strong></p>\n", count_text(report.failed_saves, "save"));
  }
  if (report.skipped_saves > 0) {
    text +=
        fmt::format("<p>{} left out, as the one before was still being written in the background.</p>\n",
                    report.skipped_saves == 1 ? "1 save was" : std::to_string(report.skipped_saves) + " saves were");
  }
  return text;
}

std::string saves_part(const RunReport& report) {
  if (report.saves.empty()) {
    return "<p>No save is on record.</p>\n" + failures_of_saves(report);
  }
  const std::size_t count = report.saves.size();
  const auto times = quantiles(of_saves(report, [](const ReportedSave& save) { return save.seconds; }));
  const auto stops = quantiles(of_saves(report, [](const ReportedSave& save) { return save.blocked_s; }));
  const auto sizes =
      quantiles(of_saves(report, [](const ReportedSave& save) { return static_cast<double>(save.bytes); }));
  return "<div class=\"charts\">\n" + save_time_chart(report) + save_size_chart(report) +
         "</div>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th></th><th class=\"n\">Count</th><th "
         "class=\"n\">Median</th><th class=\"n\">90th percentile</th><th "
         "class=\"n\">Greatest</th></tr></thead><tbody>\n" +
         quantile_row("Time of a save", count, times, span_text) +
         quantile_row("Program stood still", count, stops, span_text) +
         quantile_row("Size of the state", count, sizes, bytes_text) + "</tbody></table></div>\n" +
         failures_of_saves(report);
}

/// Near copies, if there were any: what they cost, and what they have brought back.
std::string near_part(const RunReport& report) {
  std::uint64_t restores = 0, steps = 0, count = 0;
  for (const ReportedStart& start : report.starts) {
    restores += start.source > Source::checkpoint ? 1U : 0U;
    steps += start.saved_by_near;
  }
  for (const ReportedNear& near : report.near_copies) {
    count += near.count;
  }
  if (restores == 0 && count == 0) {
    return "";
  }
  std::string text = "<h3>Near copies</h3>\n<p>";
  if (!report.near_copies.empty()) {
    const ReportedNear& last = report.near_copies.back();
    text += fmt::format("At least {} in the memory of the nodes{}. One of {} stopped the program for {}. ",
                        count == 1 ? "1 copy" : std::to_string(count) + " copies",
                        last.has_partners ? ", and of their partners" : "", core::size_text(last.bytes),
                        span_text(last.seconds));
  }
  text += restores == 0 ? "No start went on from one."
                        : fmt::format("{} went on from one, which saved {} that no checkpoint held.",
                                      count_text(restores, "start"), count_text(steps, "step"));
  return text + "</p>\n";
}

std::string time_or_dash(const std::optional<double>& seconds) { return seconds ? span_text(*seconds) : "-"; }

std::string row_limit_text(std::size_t count) {
  return count > kMostRows
             ? fmt::format("<p class=\"soft\">The last {} of {}; --json has them all.</p>\n", kMostRows, count)
             : "";
}

std::size_t first_row(std::size_t count) { return count > kMostRows ? count - kMostRows : 0; }

std::string verdict_on(const ReportedNotice& notice, const std::optional<double>& asked_grace_s) {
  const auto grace_s = notice.grace_s ? notice.grace_s : asked_grace_s;
  if (!notice.committed_s) {
    return "not saved";
  }
  if (!grace_s) {
    return "saved";
  }
  return *notice.committed_s <= *grace_s ? "in time: " + share_text(*notice.committed_s, *grace_s) + " of the grace"
                                         : "TOO LATE";
}

std::string notices_part(const RunReport& report) {
  if (report.notices.empty()) {
    return "<p>No notice is on record.</p>\n";
  }
  const auto& asked_grace_s = report.advice.question.grace_s;
  std::string rows;
  for (std::size_t i = first_row(report.notices.size()); i < report.notices.size(); ++i) {
    const ReportedNotice& notice = report.notices[i];
    rows += fmt::format(
        "<tr><td class=\"n\">{}</td><td class=\"w\">{}{}</td><td>{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"t\">{}</td></tr>\n",
        notice.start + 1, html(notice.source), notice.message.empty() ? "" : ": " + html(notice.message),
        notice.rank < 0 ? "-" : fmt::format("rank {} ({})", notice.rank, html(notice.host)),
        time_or_dash(notice.agreed_s), time_or_dash(notice.committed_s), time_or_dash(notice.left_s),
        time_or_dash(notice.grace_s ? notice.grace_s : asked_grace_s), verdict_on(notice, asked_grace_s));
  }
  return "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th "
         "class=\"n\">Start</th><th>Notice</th><th>At</th><th "
         "class=\"n\">Agreed after</th><th class=\"n\">Saved after</th><th class=\"n\">Left after</th><th "
         "class=\"n\">Grace</th><th>Saved?</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n" + row_limit_text(report.notices.size());
}

std::string advice_part(const RunReport& report) {
  std::ostringstream text;
  print_text(text, report.advice);
  std::string lines;
  std::istringstream stream(text.str());
  for (std::string line; std::getline(stream, line);) {
    lines += html(line) + "\n";
  }
  return "<pre>" + lines +
         "</pre>\n<p class=\"sources soft\">Interval: J. W. Young, Communications of the ACM 17(9), 1974; J. T. Daly, "
         "Future Generation Computer Systems 22(3), 2006. Time between failures, where none came: the rule of three, "
         "J. A. Hanley and A. Lippman-Hand, JAMA 249(13), 1983. <code>reprieve advise</code> takes what you know of "
         "the machine: --mtbf, --grace, --time-limit.</p>\n";
}

std::string start_row(const ReportedStart& start, std::size_t number) {
  const auto step = [](const std::optional<std::uint64_t>& value) { return value ? std::to_string(*value) : "-"; };
  return fmt::format(
      "<tr><td class=\"n\">{}</td><td class=\"t\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
      "class=\"n\">{}</td><td class=\"t\">{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td "
      "class=\"w\">{}</td></tr>\n",
      number, start.time ? time_element(*start.time) : "-", html(start.host), start.ranks,
      span_text(start.end_s - start.begin_s), step(start.step_from), to_string(start.source), step(start.step_to),
      to_string(start.ending), start.times.lost_s > 0 ? span_text(start.times.lost_s) : "-", html(start.why));
}

std::string starts_part(const RunReport& report) {
  std::string rows;
  for (std::size_t i = first_row(report.starts.size()); i < report.starts.size(); ++i) {
    rows += start_row(report.starts[i], i + 1);
  }
  return "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th "
         "class=\"n\">Start</th><th>Begin</th><th>Host</th><th "
         "class=\"n\">Ranks</th><th class=\"n\">Time</th><th class=\"n\">From step</th><th>Of</th><th class=\"n\">To "
         "step</th>"
         "<th>End</th><th class=\"n\">Lost</th><th>Why</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n" + row_limit_text(report.starts.size());
}

}  // namespace

std::string run_section(const RunReport& report, std::size_t number, TimePoint now) {
  const auto part = [](const char* title, const std::string& text) {
    return fmt::format("<h3>{}</h3>\n{}", title, text);
  };
  return fmt::format("<section id=\"run-{}\">\n<h2>{}</h2>\n<p>{}</p>\n", number,
                     html(report.status.directory.string()), kept_text(report)) +
         tiles(report, now) + part("Timeline", timeline_chart(report) + timeline_legend()) +
         part("Where the time went", time_chart(report.times) + time_table(report) + honesty(report)) +
         part("What was lost, and why", losses(report)) + part("Saves", saves_part(report)) + near_part(report) +
         part("Notices", notices_part(report)) + part("Advice", advice_part(report)) +
         part("Starts", starts_part(report)) + "</section>\n";
}

std::string_view page_style() {
  return R"(
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--card:#f6f8fa;--link:#0550ae;
--kept:#2da07a;--kept-back:#c9eadf;--lost:#cf222e;--lost-back:#ffd1cc;--save:#d4a100;--restore:#0969da;
--restore-back:#b6dcff;--startup:#8c959f;--queue:#e3e7eb;--idle:#8c959f;--idle-back:#e3e7eb;--notice:#8250df}
@media (prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#e6edf3;--soft:#9aa4af;--line:#30363d;--card:#161b22;
--link:#79c0ff;--kept:#3fb68b;--kept-back:#174a3a;--lost:#ff6a60;--lost-back:#5c1a17;--save:#e3b341;--restore:#58a6ff;
--restore-back:#123a66;--startup:#6e7681;--queue:#21262d;--idle:#6e7681;--idle-back:#21262d;--notice:#bc8cff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1100px;padding:16px;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:0}h2{font-size:1.25rem;margin:0 0 .25rem}h3{font-size:1.05rem;margin:1.75rem 0 .5rem}
p{margin:.4rem 0}a{color:var(--link)}.soft{color:var(--soft)}
section{border-top:2px solid var(--line);margin-top:2rem;padding-top:1.25rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:.75rem 0;padding:0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 12px}
.tiles dt{color:var(--soft);font-size:.85rem}.tiles dd{margin:0;font-size:1.15rem;font-weight:600}
.tiles dd small{display:block;font-size:.8rem;font-weight:400;color:var(--soft)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.92rem;min-width:min(100%,420px)}
th,td{text-align:left;padding:4px 14px 4px 0;border-bottom:1px solid var(--line);vertical-align:top;
unicode-bidi:isolate;overflow-wrap:normal}
th{color:var(--soft);font-weight:600}td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.w{min-width:14rem;overflow-wrap:anywhere}td.t{white-space:nowrap}
svg{display:block;width:100%;height:auto}svg.patterns{position:absolute}svg.timeline{min-width:760px}
svg.sums{height:36px;border-radius:4px}svg.swatch{display:inline-block;width:18px;height:14px;vertical-align:-2px}
svg text{font-size:13px;fill:var(--soft)}text.end{text-anchor:end}text.middle{text-anchor:middle}
svg text.on-bar{text-anchor:middle;font-size:15px;font-weight:600;fill:var(--ink);stroke:var(--page);stroke-width:3px;
paint-order:stroke}
.grid{stroke:var(--line);stroke-width:1}.steps{fill:none;stroke:var(--ink);stroke-width:2}
.save{fill:var(--page);stroke:var(--ink);stroke-width:1.5}.notice line{stroke:var(--notice);stroke-dasharray:4 3}
.notice path{fill:var(--notice)}.cut{fill:none;stroke:var(--lost);stroke-width:3}.left{fill:var(--ink)}
.done{fill:var(--kept);stroke:var(--ink);stroke-width:1.5}
.k-kept{fill:var(--kept)}.k-lost{fill:url(#p-lost)}.k-unsaved{fill:url(#p-unsaved)}.k-save{fill:var(--save)}
.k-restore{fill:url(#p-restore)}.k-startup{fill:var(--startup)}.k-queue{fill:var(--queue);stroke:var(--line)}
.k-unknown{fill:url(#p-unknown)}.bar{fill:var(--restore)}.bar-light{fill:var(--restore-back)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;margin:.5rem 0;padding:0;font-size:.88rem}
.charts{display:flex;flex-wrap:wrap;gap:8px 24px}.charts figure{flex:1 1 320px;margin:0}
figcaption{font-size:.88rem;color:var(--soft)}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px;font-size:.85rem;
white-space:pre-wrap;overflow-wrap:anywhere;margin:.5rem 0}
.loss{border-left:4px solid var(--lost);padding:2px 0 2px 12px;margin:.75rem 0}.sources{font-size:.88rem}
footer{border-top:1px solid var(--line);margin-top:2rem;padding-top:.75rem;font-size:.88rem;color:var(--soft)}
@media (max-width:600px){.wide{display:none}th,td{padding-right:10px}}
@media print{:root{--page:#fff;--ink:#000;--soft:#444;--line:#bbb;--card:#fff;--kept-back:#c9eadf;--lost-back:#ffd1cc;
--restore-back:#b6dcff;--queue:#e3e7eb;--idle-back:#e3e7eb}body{max-width:none;padding:0;font-size:11pt}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}.scroll{overflow:visible}svg.timeline{min-width:0}
h3,figure,.loss,tr,.tiles div{break-inside:avoid}h2,h3{break-after:avoid}}
)";
}

}  // namespace reprieve::tool
