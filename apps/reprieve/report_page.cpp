// SPDX-License-Identifier: BSD-3-Clause
#include "report_page.hpp"

#include <fmt/format.h>

#include "markup.hpp"
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

}  // namespace reprieve::tool
