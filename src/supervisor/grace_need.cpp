// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/grace_need.hpp"

#include <cmath>

namespace reprieve::supervisor {

namespace {

constexpr double kFactor = 1.5;
constexpr double kLeast = 1.0;
constexpr double kSlurmLateness = 30.0;
constexpr double kRounding = 10.0;

}  // namespace

double grace_needed_s(const GraceCosts& costs) { return costs.wait_s + costs.save_s + costs.leave_s; }

double grace_with_margin_s(const GraceCosts& costs) { return kFactor * grace_needed_s(costs) + kLeast; }

int signal_lead_s(const GraceCosts& costs) {
  return static_cast<int>(std::ceil((grace_with_margin_s(costs) + kSlurmLateness) / kRounding) * kRounding);
}

}  // namespace reprieve::supervisor
