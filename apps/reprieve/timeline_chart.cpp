// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "chart_axis.hpp"
#include "core/text.hpp"
#include "markup.hpp"
#include "report_charts.hpp"

namespace reprieve::tool {

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

class Timeline {
 public:
  explicit Timeline(const RunReport& report)
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

std::string timeline_chart(const RunReport& report) { return Timeline(report).draw(); }

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
