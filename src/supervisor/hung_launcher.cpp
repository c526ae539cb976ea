// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/hung_launcher.hpp"

#include <set>

#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {

namespace {

constexpr int kUnseenFactor = 4;

}  // namespace

std::vector<ProcessInfo> HungLaunchers::find(const std::vector<ProcessInfo>& processes, Clock::time_point now) {
  std::set<pid_t> parents;
  for (const ProcessInfo& process : processes) {
    parents.insert(process.parent);
  }
  std::vector<ProcessInfo> hung;
  for (const ProcessInfo& process : processes) {
    if (!is_launcher(process.program) || !has_children(process.program)) {
      continue;
    }
    Seen& seen = seen_.try_emplace(process.pid, Seen{now}).first->second;
    if (parents.contains(process.pid)) {
      seen = {now, true};
    } else if (now - seen.last_busy >= (seen.had_children ? limit_ : kUnseenFactor * limit_)) {
      hung.push_back(process);
    }
  }
  return hung;
}

}  // namespace reprieve::supervisor
