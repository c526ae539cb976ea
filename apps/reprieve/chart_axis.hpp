// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Axes of pictures: from values to places, and where the marks stand. Pure.

#include <string>
#include <vector>

namespace reprieve::tool {

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

}  // namespace reprieve::tool
