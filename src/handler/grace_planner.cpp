// SPDX-License-Identifier: BSD-3-Clause
#include "handler/grace_planner.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace reprieve::handler {

void DurationHistory::add(std::chrono::duration<double> value) {
  recent_.push_back(value.count());
  if (recent_.size() > kKept) {
    recent_.pop_front();
  }
}

std::chrono::duration<double> DurationHistory::upper_estimate() const {
  if (recent_.empty()) {
    return std::chrono::duration<double>::zero();
  }
  std::vector<double> sorted(recent_.begin(), recent_.end());
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(sorted.size())));
  return std::chrono::duration<double>(sorted[rank - 1]);
}

std::chrono::duration<double> final_save_lead(const GraceInputs& in) {
  return in.margin + in.save_time + in.check_interval + 2.0 * in.step_time;
}

bool final_save_is_due(const GraceInputs& in) { return in.time_left <= final_save_lead(in); }

bool room_for_another_save(const GraceInputs& in) {
  return in.time_left > in.margin + in.save_time + in.check_interval + 3.0 * in.step_time;
}

bool save_fits(std::chrono::duration<double> grace_period, std::chrono::duration<double> save_time,
               std::chrono::duration<double> margin) {
  return save_time + margin <= grace_period;
}

}  // namespace reprieve::handler
