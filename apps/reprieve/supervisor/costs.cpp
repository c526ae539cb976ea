// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/costs.hpp"

#include <algorithm>
#include <cmath>

namespace reprieve::supervisor {

void RunHistory::add(const RunHistory& other) {
  runs += other.runs;
  finished += other.finished;
  preempted += other.preempted;
  failed += other.failed;
  observed_s += other.observed_s;
  for (const auto list :
       {&RunHistory::saves_s, &RunHistory::first_saves_s, &RunHistory::blocked_s, &RunHistory::restores_s,
        &RunHistory::waits_s, &RunHistory::notices_s, &RunHistory::intervals_s, &RunHistory::local_copies_s}) {
    (this->*list).insert((this->*list).end(), (other.*list).begin(), (other.*list).end());
  }
  stepping_s += other.stepping_s;
  steps += other.steps;
  longest_step_s = std::max(longest_step_s, other.longest_step_s);
  state_bytes = std::max(state_bytes, other.state_bytes);
}

double young_interval_s(double save_s, double mtbf_s) { return std::sqrt(2 * save_s * mtbf_s); }

double daly_interval_s(double save_s, double mtbf_s) {
  if (save_s >= 2 * mtbf_s) {
    return mtbf_s;
  }
  const double ratio = save_s / (2 * mtbf_s);
  return young_interval_s(save_s, mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save_s;
}

double lost_fraction(double interval_s, double save_s, double restart_s, double mtbf_s) {
  const double wall_clock_per_work =
      mtbf_s * std::exp(restart_s / mtbf_s) * std::expm1((interval_s + save_s) / mtbf_s) / interval_s;
  return 1 - 1 / wall_clock_per_work;
}

double shortest_mtbf_s(double observed_s) { return observed_s / -std::log(0.05); }

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
