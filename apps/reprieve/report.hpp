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

/// report.html, with the JSON of the reports in it, from which its script draws. HTML that is well-formed XML too.
/// @param reports  what `report --json` prints  @param now  when the page is made
std::string report_page(const Json& reports, TimePoint now);

// The report as numbers for a monitoring system: the text formats of Prometheus and OpenMetrics. Pure.

/// What such a file begins with, and by which it is known as one of ours.
inline constexpr std::string_view kMetricsMarker = "# HELP reprieve_run_state";

enum class MetricsFormat {
  prometheus,   ///< text exposition format 0.0.4, for the textfile collector of node_exporter
  openmetrics,  ///< 1.0
};

std::string metrics_text(const std::vector<RunReport>& reports, MetricsFormat format, TimePoint now);

}  // namespace reprieve::tool
