#include "supervisor/hung_launcher.hpp"

#include <set>

#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {

namespace {

/// srun need not have children: the tasks are those of Slurm's daemons.
bool keeps_children(const ProcessInfo& process) { return is_launcher(process.program) && process.program != "srun"; }

}  // namespace

std::vector<ProcessInfo> HungLaunchers::find(const std::vector<ProcessInfo>& processes, Clock::time_point now) {
  std::set<pid_t> parents;
  for (const ProcessInfo& process : processes) {
    parents.insert(process.parent);
  }
  std::vector<ProcessInfo> hung;
  for (const ProcessInfo& process : processes) {
    if (!keeps_children(process)) {
      continue;
    }
    if (parents.contains(process.pid)) {
      last_with_children_[process.pid] = now;
    } else if (const auto last = last_with_children_.find(process.pid);
               last != last_with_children_.end() && now - last->second >= limit_) {
      hung.push_back(process);
    }
  }
  return hung;
}

}  // namespace reprieve::supervisor
