// SPDX-License-Identifier: BSD-3-Clause
#include "report_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "chart_axis.hpp"
#include "markup.hpp"

namespace reprieve::tool {

namespace {

/// Stripes of two colours, so that a kind is known without its colour.
std::string stripes(const char* name, int angle, const char* front, const char* back) {
  return fmt::format(
      "<pattern id=\"p-{}\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate({})\"><rect width=\"7\" height=\"7\" style=\"fill:var({})\"/><rect width=\"3\" "
      "height=\"7\" style=\"fill:var({})\"/></pattern>",
      name, angle, back, front);
}

struct Bar {
  double at_s = 0;
  double value = 0;
  double part = 0;  ///< of the value; drawn in another colour
};

struct BarPicture {
  std::string label;
  std::function<std::string(double)> tick_text;
  bool has_parts = false;
};

constexpr double kBarsWidth = 480;
constexpr double kBarsHeight = 170;

/// Of bars at one place the highest.
std::vector<Bar> highest_by_place(const std::vector<Bar>& bars, const ChartScale& place) {
  std::vector<Bar> kept;
  for (const Bar& bar : bars) {
    if (!kept.empty() && place.at(bar.at_s) < place.at(kept.back().at_s) + 3) {
      if (bar.value > kept.back().value) {
        kept.back().value = bar.value;
        kept.back().part = bar.part;
      }
      continue;
    }
    kept.push_back(bar);
  }
  return kept;
}

std::string bar_rect(const char* css, double x, double y, double bottom) {
  return fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{:.1f}\" width=\"2.6\" height=\"{:.1f}\"/>", css, coordinate(x),
                     y, std::max(bottom - y, 0.8));
}

std::string bar_chart(const std::vector<Bar>& bars, double length_s, const BarPicture& picture) {
  const ChartScale place{length_s, 84, kBarsWidth - 12};
  double greatest = 0;
  for (const Bar& bar : bars) {
    greatest = std::max(greatest, bar.value);
  }
  const ChartScale height{greatest * 1.08, kBarsHeight - 30, 12};
  std::string svg;
  for (const double value : {0.0, greatest / 2, greatest}) {
    const double y = height.at(value);
    svg += fmt::format("<line class=\"grid\" x1=\"84\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", kBarsWidth - 12, coordinate(y),
                       coordinate(y));
    svg += fmt::format("<text class=\"end\" x=\"78\" y=\"{}\">{}</text>", coordinate(y + 4),
                       html(picture.tick_text(value)));
  }
  for (const double seconds : time_ticks(length_s, 4)) {
    svg += fmt::format("<text class=\"middle\" x=\"{}\" y=\"{}\">{}</text>",
                       coordinate(std::min(place.at(seconds), kBarsWidth - 30)), kBarsHeight - 10,
                       time_tick_text(seconds));
  }
  for (const Bar& bar : highest_by_place(bars, place)) {
    const double x = place.at(bar.at_s) - 1.3;
    svg += bar_rect(picture.has_parts ? "bar-light" : "bar", x, height.at(bar.value), height.at(0));
    if (picture.has_parts) {
      svg += bar_rect("bar", x, height.at(std::min(bar.part, bar.value)), height.at(0));
    }
  }
  return fmt::format(
      "<figure><figcaption>{0}</figcaption><svg viewBox=\"0 0 {1} {2}\" role=\"img\" aria-label=\"{0}\">{3}</svg>"
      "</figure>\n",
      html(picture.label), kBarsWidth, kBarsHeight, svg);
}

}  // namespace

std::string chart_patterns() {
  return "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>" +
         stripes("lost", 45, "--lost", "--lost-back") + stripes("unsaved", 0, "--kept", "--kept-back") +
         stripes("restore", 90, "--restore", "--restore-back") + stripes("unknown", 135, "--idle", "--idle-back") +
         "</defs></svg>\n";
}

std::string swatch(const std::string& kind) {
  return fmt::format(
      "<svg class=\"swatch\" viewBox=\"0 0 18 14\" aria-hidden=\"true\"><rect class=\"k-{}\" x=\"1\" y=\"1\" "
      "width=\"16\" "
      "height=\"12\"/></svg>",
      kind);
}

std::string time_chart(const TimeSums& times) {
  const ChartScale percent{times.total_s(), 0, 100};
  std::string svg;
  double begin_s = 0;
  for (const TimeKind& kind : time_kinds()) {
    const double seconds = times.*kind.seconds;
    const double x = percent.at(begin_s), width = seconds > 0 ? percent.at(seconds) : 0;
    if (width >= 0.05) {
      svg +=
          fmt::format("<rect class=\"k-{}\" x=\"{:.2f}%\" width=\"{:.2f}%\" height=\"36\"><title>{}: {}</title></rect>",
                      kind.id, x, width, kind.title, span_text(seconds));
    }
    if (width >= 12) {
      svg += fmt::format("<text class=\"on-bar\" x=\"{:.2f}%\" y=\"23\">{}</text>", x + width / 2,
                         share_text(seconds, times.total_s()));
    }
    begin_s += seconds;
  }
  return "<svg class=\"sums\" role=\"img\" aria-label=\"Where the time went\">" + svg + "</svg>\n";
}

std::string save_time_chart(const RunReport& report) {
  std::vector<Bar> bars;
  bool in_background = false;
  for (const ReportedSave& save : report.saves) {
    bars.push_back({save.at_s, save.seconds, save.blocked_s});
    in_background |= save.blocked_s < 0.95 * save.seconds;
  }
  const char* const label =
      in_background ? "Time of each save (pale), and for how long the program stood still (dark)" : "Time of each save";
  return bar_chart(bars, report.length_s(), {label, [](double seconds) { return span_text(seconds); }, in_background});
}

std::string save_size_chart(const RunReport& report) {
  std::vector<Bar> bars;
  for (const ReportedSave& save : report.saves) {
    bars.push_back({save.at_s, static_cast<double>(save.bytes), 0});
  }
  return bar_chart(bars, report.length_s(), {"Size of the state in each save", bytes_text});
}

}  // namespace reprieve::tool
