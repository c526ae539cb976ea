// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The report as numbers for a monitoring system: the text formats of Prometheus and OpenMetrics. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "run_report.hpp"

namespace reprieve::tool {

/// What such a file begins with, and by which it is known as one of ours.
inline constexpr std::string_view kMetricsMarker = "# HELP reprieve_run_state";

enum class MetricsFormat {
  prometheus,   ///< text exposition format 0.0.4, for the textfile collector of node_exporter
  openmetrics,  ///< 1.0
};

std::string metrics_text(const std::vector<RunReport>& reports, MetricsFormat format, TimePoint now);

}  // namespace reprieve::tool
