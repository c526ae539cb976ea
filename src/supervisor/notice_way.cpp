// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/notice_way.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace reprieve::supervisor {

namespace {

std::string name_of(const RunProcess& process) {
  return fmt::format("{} {}", process.program.empty() ? "process" : process.program, process.pid);
}

Delivery to_command(int signal, pid_t command, const std::vector<RunProcess>& processes) {
  const auto found = std::find_if(processes.begin(), processes.end(),
                                  [&](const RunProcess& process) { return process.pid == command; });
  return found == processes.end() ? Delivery{} : Delivery{{{command, signal}}, name_of(*found)};
}

Delivery to_everything(int signal, const std::vector<RunProcess>& processes) {
  Delivery delivery;
  for (const RunProcess& process : processes) {
    delivery.targets.push_back({process.pid, SIGCONT});
    delivery.targets.push_back({process.pid, signal});
  }
  delivery.to = processes.empty() ? "" : fmt::format("all {} processes", processes.size());
  return delivery;
}

Delivery to_tasks_of_srun(int signal, const std::vector<RunProcess>& processes) {
  Delivery delivery;
  const auto is_srun = [](const RunProcess& process) { return process.program == "srun"; };
  if (std::none_of(processes.begin(), processes.end(), is_srun)) {
    return delivery;
  }
  const auto ranks = rank_processes(processes);
  for (const auto& [rank, pid] : ranks) {
    delivery.targets.push_back({pid, SIGCONT});
    delivery.targets.push_back({pid, signal});
  }
  delivery.to = ranks.empty() ? "" : fmt::format("the {} tasks of srun on this node", ranks.size());
  return delivery;
}

Delivery to_launcher(int signal, const std::vector<RunProcess>& processes) {
  Delivery delivery;
  for (const RunProcess& process : processes) {
    const bool inside = std::any_of(delivery.targets.begin(), delivery.targets.end(),
                                    [&](const NoticeTarget& target) { return target.pid == process.parent; });
    if (is_launcher(process.program) && !inside) {
      delivery.targets.push_back({process.pid, signal});
      delivery.to += (delivery.to.empty() ? "" : ", ") + name_of(process);
    }
  }
  return delivery;
}

Delivery to_last_rank(int signal, const std::vector<RunProcess>& processes) {
  const auto ranks = rank_processes(processes);
  if (ranks.empty()) {
    return {};
  }
  const auto& [rank, pid] = *ranks.rbegin();
  return {{{pid, signal}}, fmt::format("rank {} alone", rank)};
}

}  // namespace

int usual_signal(NoticeWay way) { return way == NoticeWay::command ? SIGUSR1 : SIGTERM; }

Delivery plan_delivery(NoticeWay way, int signal, pid_t command, const std::vector<RunProcess>& processes) {
  switch (way) {
    case NoticeWay::command:
      return to_command(signal, command, processes);
    case NoticeWay::time_limit:
      return to_everything(signal, processes);
    case NoticeWay::slurm_grace:
      return to_tasks_of_srun(signal, processes);
    case NoticeWay::launcher:
      return to_launcher(signal, processes);
    case NoticeWay::rank:
      break;
  }
  return to_last_rank(signal, processes);
}

}  // namespace reprieve::supervisor
