// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/checkpoint_interval.hpp"

#include <cmath>

namespace reprieve::supervisor {

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

}  // namespace reprieve::supervisor
