// SPDX-License-Identifier: BSD-3-Clause
#include "chart_axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace reprieve::tool {

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

}  // namespace reprieve::tool
