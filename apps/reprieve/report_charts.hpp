// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The pictures of a report, as SVG. What is narrower than a pixel is drawn once for a place, so that their size does
/// not grow with the log. Pure.

#include <string>

#include "run_report.hpp"

namespace reprieve::tool {

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
