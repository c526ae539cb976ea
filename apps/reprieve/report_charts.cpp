// SPDX-License-Identifier: BSD-3-Clause
#include "report_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>

#include "core/log.hpp"
#include "text.hpp"

namespace reprieve::tool {

std::string html(const std::string& text) {
  std::string escaped;
  for (const char c : printable(valid_utf8(text))) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) {
    text.resize(text.size() - 2);
  }
  return text == "-0" ? "0" : text;
}

std::string span_text(double seconds) {
  constexpr double kMinute = 60, kHours = 48 * 60 * kMinute;
  if (seconds < kMinute) {
    return core::seconds_text(std::chrono::duration<double>(seconds));
  }
  if (seconds < kHours) {
    return core::duration_text(std::chrono::duration<double>(seconds));
  }
  const auto hours = static_cast<long>(seconds / 3600);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string bytes_text(double bytes) {
  constexpr double kMost = 9e18;  // a log may tell more than a file can have
  return core::size_text(static_cast<std::uint64_t>(std::clamp(bytes, 0.0, kMost)));
}

std::string share_text(double part, double whole) {
  const double percent = whole > 0 ? 100 * part / whole : 0;
  return percent == 0 || percent >= 10 ? fmt::format("{:.0f} %", percent) : fmt::format("{:.1g} %", percent);
}

namespace {

constexpr double kMinuteOfAxis = 60;
constexpr double kHourOfAxis = 60 * kMinuteOfAxis;
constexpr double kDayOfAxis = 24 * kHourOfAxis;

/// 1, 2 or 5 times a power of ten.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) {
      return factor * power;
    }
  }
  return 10 * power;
}

double time_step(double least) {
  constexpr std::array kSteps{1.0,
                              2.0,
                              5.0,
                              10.0,
                              15.0,
                              30.0,
                              kMinuteOfAxis,
                              2 * kMinuteOfAxis,
                              5 * kMinuteOfAxis,
                              10 * kMinuteOfAxis,
                              15 * kMinuteOfAxis,
                              30 * kMinuteOfAxis,
                              kHourOfAxis,
                              2 * kHourOfAxis,
                              3 * kHourOfAxis,
                              6 * kHourOfAxis,
                              12 * kHourOfAxis,
                              kDayOfAxis};
  if (least < kSteps.front()) {
    return round_step(least);
  }
  const auto* const found = std::find_if(kSteps.begin(), kSteps.end(), [&](double step) { return step >= least; });
  return found != kSteps.end() ? *found : kDayOfAxis * round_step(least / kDayOfAxis);
}

std::vector<double> ticks_in_steps(double greatest, double step) {
  std::vector<double> ticks;
  for (int i = 0; i < 100 && i * step <= greatest * (1 + 1e-9); ++i) {
    ticks.push_back(i * step);
  }
  return ticks;
}

}  // namespace

std::vector<double> count_ticks(double greatest, int most) {
  return greatest > 0 ? ticks_in_steps(greatest, round_step(greatest / most)) : std::vector<double>{0};
}

std::vector<double> time_ticks(double greatest, int most) {
  return greatest > 0 ? ticks_in_steps(greatest, time_step(greatest / most)) : std::vector<double>{0};
}

std::string time_tick_text(double seconds) {
  if (seconds == 0) {
    return "0";
  }
  if (seconds < kMinuteOfAxis) {
    return fmt::format("{:.3g} s", seconds);
  }
  const auto whole = static_cast<long>(std::lround(seconds));
  const auto pair = [](long great, const char* great_unit, long small, const char* small_unit) {
    std::string text = great > 0 ? fmt::format("{} {}", great, great_unit) : "";
    return small > 0 ? fmt::format("{}{}{} {}", text, text.empty() ? "" : " ", small, small_unit) : text;
  };
  if (seconds < kHourOfAxis) {
    return pair(whole / 60, "min", whole % 60, "s");
  }
  if (seconds < kDayOfAxis) {
    return pair(whole / 3600, "h", whole % 3600 / 60, "min");
  }
  return pair(whole / 86400, "d", whole % 86400 / 3600, "h");
}

std::string count_tick_text(double count) {
  for (const auto& [size, unit] : {std::pair{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e4, " k"}}) {
    if (count >= size) {
      return fmt::format("{:.4g}{}", count / (size == 1e4 ? 1e3 : size), unit);
    }
  }
  return fmt::format("{:.4g}", count);
}

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

namespace {

constexpr double kPictureWidth = 1000;
constexpr double kPictureLeft = 64;
constexpr double kPictureRight = kPictureWidth - 16;
constexpr double kLaneTop = 24;
constexpr double kLaneHeight = 24;
constexpr double kLabelRow = 66;
constexpr double kPlotTop = 78;
constexpr double kPlotBottom = 250;
constexpr double kPictureHeight = 280;
constexpr double kLetterWidth = 7.6;  ///< the width of one, or rather more

const char* kind_of(Fate fate) {
  switch (fate) {
    case Fate::kept:
      return "kept";
    case Fate::lost:
      return "lost";
    case Fate::unsaved:
      return "unsaved";
    case Fate::untold:
      break;
  }
  return "unknown";
}

/// The word beside the mark at the end of a start.
const char* word_of(Ending ending) {
  switch (ending) {
    case Ending::saved:
      return "saved, left";
    case Ending::untold:
      return "ended";
    case Ending::working:
      return "now";
    default:
      return to_string(ending);
  }
}

class TimelinePicture {
 public:
  explicit TimelinePicture(const RunReport& report)
      : report_(report),
        time_{report.length_s(), kPictureLeft, kPictureRight},
        step_{greatest_step(), kPlotBottom, kPlotTop} {}

  std::string draw() {
    axes();
    lane();
    curve();
    saves();
    notices();
    ends();
    return fmt::format(
        "<div class=\"scroll\" tabindex=\"0\"><svg class=\"timeline\" viewBox=\"0 0 {} {}\" role=\"img\" "
        "aria-label=\"Timeline: {}, {}, {}\">{}</svg></div>\n",
        kPictureWidth, kPictureHeight, count_text(report_.starts.size(), "start"),
        count_text(report_.saves.size(), "save"), count_text(report_.notices.size(), "notice"), svg_);
  }

 private:
  [[nodiscard]] double greatest_step() const {
    std::uint64_t greatest = 0;
    for (const StepPoint& point : report_.points) {
      greatest = std::max(greatest, point.step);
    }
    return static_cast<double>(std::max<std::uint64_t>(greatest, 1));
  }

  void text(double x, double y, const char* place, const std::string& words) {
    svg_ +=
        fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>", coordinate(x), coordinate(y), place, html(words));
  }

  void axes() {
    for (const double step : count_ticks(step_.greatest, 4)) {
      const std::string y = coordinate(step_.at(step));
      svg_ += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", kPictureLeft, kPictureRight,
                          y, y);
      text(kPictureLeft - 8, step_.at(step) + 4, "end", count_tick_text(step));
    }
    for (const double seconds : time_ticks(time_.greatest, 8)) {
      const std::string x = coordinate(time_.at(seconds));
      svg_ += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", x, x, kPlotTop,
                          kPlotBottom + 4);
      text(std::min(time_.at(seconds), kPictureRight - 16), kPlotBottom + 20, "middle", time_tick_text(seconds));
    }
    text(kPictureLeft - 8, kPlotTop - 12, "end", "step");
  }

  /// Nothing where the same kind was drawn at the same place already, and it is too narrow to be seen.
  void field(const char* kind, double begin_s, double end_s, double least_width = 0.4) {
    const double x = time_.at(begin_s);
    const double width = std::max(time_.at(end_s) - x, least_width);
    double& drawn = drawn_to_[kind];
    if (end_s <= begin_s || x + width < drawn + 0.4) {
      return;
    }
    drawn = x + width;
    svg_ += fmt::format("<rect class=\"k-{}\" x=\"{}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"/>", kind, coordinate(x),
                        kLaneTop, width, kLaneHeight);
  }

  void lane() {
    double label_end = 0;
    for (std::size_t i = 0; i < report_.starts.size(); ++i) {
      const ReportedStart& start = report_.starts[i];
      field("startup", start.begin_s, start.ready_s);
      if (start.restore_begin_s) {
        field("restore", *start.restore_begin_s, start.restore_end_s.value_or(start.ready_s), 1.5);
      }
      const double next_s = i + 1 < report_.starts.size() ? report_.starts[i + 1].begin_s : start.end_s;
      field("unknown", start.end_s, next_s - start.times.down_s);
      field("queue", next_s - start.times.down_s, next_s);
      label(label_end, start.begin_s, kLaneTop - 8, fmt::format("start {}", i + 1));
    }
    for (std::size_t i = 0; i < report_.spans.size();) {
      const WorkSpan& first = report_.spans[i];
      double end_s = first.end_s;
      for (; i < report_.spans.size() && report_.spans[i].start == first.start && report_.spans[i].fate == first.fate;
           ++i) {
        end_s = report_.spans[i].end_s;
      }
      field(kind_of(first.fate), first.begin_s, end_s, 1);
    }
    const double least_width = report_.saves.size() > 200 ? 0.2 : 1;  // many must not hide the work between them
    for (const ReportedSave& save : report_.saves) {
      field("save", save.at_s - save.blocked_s, save.at_s, least_width);
    }
  }

  /// Words beginning at a moment, unless words stand there already.
  void label(double& row_end, double at_s, double y, const std::string& words) {
    const double width = kLetterWidth * static_cast<double>(words.size());
    const double x = std::clamp(time_.at(at_s), kPictureLeft, kPictureRight - width);
    if (x >= row_end) {
      text(x, y, "start", words);
      row_end = x + width + 6;
    }
  }

  void curve() {
    std::string line;
    std::optional<std::size_t> start;
    double last_x = 0;
    std::string skipped;
    double drawn_to = -1;
    const auto close = [&] {
      if (!line.empty() && last_x >= drawn_to + 0.5) {  // else a start so short that it cannot be seen
        drawn_to = last_x;
        svg_ += "<polyline class=\"steps\" points=\"" + line + skipped + "\"/>";
      }
      line.clear();
      skipped.clear();
    };
    for (const StepPoint& point : report_.points) {
      const double x = time_.at(point.at_s);
      const std::string place = coordinate(x) + "," + coordinate(step_.at(static_cast<double>(point.step))) + " ";
      if (start != point.start) {
        close();
      } else if (x < last_x + 0.5) {
        skipped = place;
        continue;
      }
      start = point.start;
      last_x = x;
      line += place;
      skipped.clear();
    }
    close();
  }

  void saves() {
    double last_x = -10;
    for (const ReportedSave& save : report_.saves) {
      const double x = time_.at(save.at_s);
      if (x < last_x + 4) {
        continue;
      }
      last_x = x;
      svg_ += fmt::format(
          "<circle class=\"save\" cx=\"{}\" cy=\"{}\" r=\"3.5\"><title>checkpoint {}: {}, {}</title></circle>",
          coordinate(x), coordinate(step_.at(static_cast<double>(save.step.value_or(0)))), save.number,
          html(core::size_text(save.bytes)), span_text(save.seconds));
    }
  }

  void notices() {
    double last_x = -10;
    for (const ReportedNotice& notice : report_.notices) {
      const double x = time_.at(notice.at_s);
      if (x < last_x + 2) {
        continue;
      }
      last_x = x;
      svg_ += fmt::format(
          "<g class=\"notice\"><line x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/><path "
          "d=\"M{3} {4}h10l-5 8z\"/><title>notice: {5}</title></g>",
          coordinate(x), kPlotTop, kPlotBottom, coordinate(x - 5), kPlotTop - 6, html(notice.source));
    }
  }

  /// A cross where it was cut off, a square where it left, a disc where it was done.
  static std::string end_mark(Ending ending, double x, double y) {
    switch (ending) {
      case Ending::killed:
      case Ending::failed:
        return fmt::format("<path class=\"cut\" d=\"M{} {}l10 10m0 -10l-10 10\"/>", coordinate(x - 5),
                           coordinate(y - 5));
      case Ending::finished:
        return fmt::format("<circle class=\"done\" cx=\"{}\" cy=\"{}\" r=\"6\"/>", coordinate(x), coordinate(y));
      default:
        return fmt::format("<rect class=\"left\" x=\"{}\" y=\"{}\" width=\"9\" height=\"9\"/>", coordinate(x - 4.5),
                           coordinate(y - 4.5));
    }
  }

  void ends() {
    double label_end = 0, last_x = -10;
    for (const ReportedStart& start : report_.starts) {
      const double x = time_.at(start.end_s);
      const bool is_cut = start.ending == Ending::killed || start.ending == Ending::failed;
      if (x >= last_x + (is_cut ? 1 : 4)) {
        last_x = x;
        svg_ += end_mark(start.ending, x, step_.at(static_cast<double>(start.step_to.value_or(0))));
      }
      label(label_end, start.end_s, kLabelRow, word_of(start.ending));
    }
  }

  const RunReport& report_;
  ChartScale time_;
  ChartScale step_;
  std::map<std::string, double> drawn_to_;
  std::string svg_;
};

std::string legend_mark(const std::string& shape, const char* words) {
  return "<li><svg class=\"swatch\" viewBox=\"0 0 18 14\" aria-hidden=\"true\">" + shape + "</svg> " + words + "</li>";
}

}  // namespace

std::string timeline_chart(const RunReport& report) { return TimelinePicture(report).draw(); }

std::string timeline_legend() {
  std::string items;
  for (const TimeKind& kind : time_kinds()) {
    items += "<li>" + swatch(kind.id) + " " + html(kind.title) + "</li>";
  }
  items += legend_mark("<polyline class=\"steps\" points=\"0,12 18,2\"/>", "step reached");
  items += legend_mark("<circle class=\"save\" cx=\"9\" cy=\"7\" r=\"3.5\"/>", "checkpoint saved");
  items += legend_mark("<g class=\"notice\"><path d=\"M4 3h10l-5 8z\"/></g>", "termination notice");
  items += legend_mark("<path class=\"cut\" d=\"M4 2l10 10m0 -10l-10 10\"/>", "killed or failed");
  items += legend_mark("<rect class=\"left\" x=\"5\" y=\"3\" width=\"9\" height=\"9\"/>", "left or stands");
  items += legend_mark("<circle class=\"done\" cx=\"9\" cy=\"7\" r=\"6\"/>", "finished");
  return "<ul class=\"legend\">" + items + "</ul>\n";
}

}  // namespace reprieve::tool
