// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The report of runs as one page that needs nothing else, and as numbers for a monitoring system. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "timeline.hpp"

namespace reprieve::tool {

/// What every page begins with, and by which it is known as one of ours.
inline constexpr std::string_view kPageMarker = "<!DOCTYPE html><!-- made by reprieve report -->";

/// HTML that is well-formed XML too. @param now  when it is made
std::string report_page(const std::vector<RunReport>& reports, TimePoint now);

/// What the page says of one run.
std::string run_section(const RunReport& report, std::size_t number, TimePoint now);

/// Of the page: its colours and its form.
std::string_view page_style();

/// "2026-03-01 12:00:00 UTC", as an element that a browser can show in the local time.
std::string time_element(TimePoint time);

/// The part of the time between the first start and the end that went into steps that were kept, and into lost ones.
std::string kept_text(const RunReport& report);

// The report as numbers for a monitoring system: the text formats of Prometheus and OpenMetrics. Pure.

/// What such a file begins with, and by which it is known as one of ours.
inline constexpr std::string_view kMetricsMarker = "# HELP reprieve_run_state";

enum class MetricsFormat {
  prometheus,   ///< text exposition format 0.0.4, for the textfile collector of node_exporter
  openmetrics,  ///< 1.0
};

std::string metrics_text(const std::vector<RunReport>& reports, MetricsFormat format, TimePoint now);

}  // namespace reprieve::tool
