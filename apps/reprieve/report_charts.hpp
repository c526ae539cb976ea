// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The pictures of the report, with their axes, and text and numbers in them. Pure.

#include <string>
#include <vector>

#include "timeline.hpp"

namespace reprieve::tool {

// Text and numbers as they stand in a page. The page is XML as well as HTML.

/// @p text as text, whatever it is: what would be a tag or an entity is escaped, and bytes that are not UTF-8 and
/// characters that steer terminals are replaced.
std::string html(const std::string& text);

/// A place or a length in a picture: one digit behind the point, and none that is not needed.
std::string coordinate(double value);

/// "0.0213 s", "42 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
std::string span_text(double seconds);

/// A size as `size_text` has it, of bytes that were calculated with.
std::string bytes_text(double bytes);

/// "61 %", "0.8 %"; "0 %" if @p whole is nothing.
std::string share_text(double part, double whole);

// Axes of pictures: from values to places, and where the marks stand. Pure.

/// From a value to a place in the picture.
struct ChartScale {
  double greatest = 1;  ///< value; the smallest is 0
  double from = 0;      ///< place of 0
  double to = 1;        ///< place of the greatest

  [[nodiscard]] double at(double value) const { return greatest > 0 ? from + (to - from) * (value / greatest) : from; }
};

/// Round values from 0 up to @p greatest: at most @p most of them besides 0.
std::vector<double> count_ticks(double greatest, int most);

/// The same for a time in seconds: in steps of seconds, minutes, hours or days that people count in.
std::vector<double> time_ticks(double greatest, int most);

/// "0", "30 s", "5 min", "2 h", "1 h 30 min", "3 d".
std::string time_tick_text(double seconds);

/// "0", "500", "1.5 k", "20 M".
std::string count_tick_text(double count);

// The pictures of a report, as SVG. What is narrower than a pixel is drawn once for a place, so that their size does
// not grow with the log. Pure.

/// The patterns that the pictures use; once in a page, before them.
std::string chart_patterns();

/// Starts, steps over time, saves, notices, ends, and what was between the starts.
std::string timeline_chart(const RunReport& report);

/// What stands for what in the timeline.
std::string timeline_legend();

/// The sums of the time, side by side.
std::string time_chart(const TimeSums& times);

/// How long the saves took.
std::string save_time_chart(const RunReport& report);

/// How large they are.
std::string save_size_chart(const RunReport& report);

/// A small field in the colour and pattern of a kind of time.
std::string swatch(const std::string& kind);

}  // namespace reprieve::tool
