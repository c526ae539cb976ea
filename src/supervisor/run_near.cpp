// SPDX-License-Identifier: BSD-3-Clause
// Near copies that a run has left: the last start has failed, no other follows, and the memory of the nodes is gone
// when the job ends. `reprieve drain` makes a checkpoint of them, on each node that the run used.

#include <spdlog/fmt/fmt.h>

#include <sstream>
#include <utility>

#include "reprieve/error.hpp"
#include "supervisor/command.hpp"
#include "supervisor/host_probe.hpp"
#include "supervisor/job_supervisor.hpp"
#include "supervisor/launcher_command.hpp"
#include "supervisor/run_directory.hpp"
#include "supervisor/supervised_run.hpp"

namespace reprieve::supervisor {

namespace {

using namespace std::chrono_literals;

constexpr auto kDrainWait = 50ms;
/// For a file system that hangs: the job shall end some time.
constexpr std::chrono::minutes kDrainTimeout{30};
constexpr std::chrono::milliseconds kHostAnswerTimeout{20'000};

/// What a command said, in one line. What mpirun adds about codes begins with a line of dashes.
std::string in_one_line(const std::string& output) {
  std::string text;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line) && !line.starts_with("----");) {
    if (!line.empty()) {
      text += (text.empty() ? "" : "; ") + line;
    }
  }
  return text.empty() ? "no answer" : text;
}

}  // namespace

/// By SIGTERM, or by two more Ctrl-C.
bool JobSupervisor::draining_is_stopped() const {
  return (slurm_decided_ && !decided_before_drain_) || interrupts_ > interrupts_before_drain_ + 1;
}

void JobSupervisor::bring_near_copies(const Verdict& verdict) {
  if (verdict.end != Verdict::End::failed || !settings_.brings_near_copies || run_directory_->is_rehearsal() ||
      kill_at_) {
    return;
  }
  decided_before_drain_ = slurm_decided_;
  interrupts_before_drain_ = interrupts_;
  for (const auto& [record, chief] : run_->progress().chiefs()) {
    if (chief.near_directory.empty()) {
      continue;
    }
    const std::vector<std::string> words{settings_.tool.string(), "drain", chief.directory.string(), "--near",
                                         chief.near_directory.string()};
    try {
      const std::vector<HostSlots> hosts = need_.hosts.empty() ? known_hosts() : need_.hosts;
      if (hosts.size() > 1) {
        drain_on_hosts(words, hosts);
      } else {
        drain_here(on_nodes_of_srun(settings_.command, words).value_or(words));
      }
    } catch (const Error& error) {
      say("warning", fmt::format("near copies are left where they are: {}", error.what()));
    }
  }
}

void JobSupervisor::drain_here(const std::vector<std::string>& words) {
  const auto limit = Clock::now() + kDrainTimeout;
  command_ = std::make_unique<Command>(with_all_output(words), EnvironmentChanges{});
  bool is_killed = false;
  while (!command_->code()) {
    wait(kDrainWait);
    if (!is_killed && (draining_is_stopped() || Clock::now() >= limit)) {
      is_killed = true;
      command_->kill_all();
    }
  }
  say("near_drain", fmt::format("near copies: {}", is_killed ? "stopped" : in_one_line(command_->output())),
      {{"code", *command_->code()}});
  command_.reset();
}

/// Each brings what it has, and the last one completes the checkpoint. Those that are dead have nothing.
void JobSupervisor::drain_on_hosts(const std::vector<std::string>& words, const std::vector<HostSlots>& hosts) {
  const auto run_on = [&](const std::vector<HostSlots>& which, std::chrono::milliseconds patience,
                          const std::vector<std::string>& what) {
    probe_ = std::make_unique<HostProbe>(settings_.command, which, patience, what);
    while (!probe_->is_done() && !draining_is_stopped()) {
      probe_->advance();
      wait(kDrainWait);
    }
    return std::exchange(probe_, nullptr);
  };
  const auto patience = settings_.hosts ? settings_.hosts->patience : kHostAnswerTimeout;
  std::vector<HostSlots> living = hosts;
  const auto asked = run_on(hosts, patience, {"true"});
  std::erase_if(living, [&](const HostSlots& host) { return asked->dead().contains(host.name); });
  if (living.empty() || draining_is_stopped()) {
    say("warning", "near copies are left where they are: no host answers");
    return;
  }
  const auto drained = run_on(living, kDrainTimeout, words);
  for (const auto& [host, answer] : drained->answers()) {
    say("near_drain", fmt::format("near copies on {}: {}", host, in_one_line(answer)), {{"host", host}});
  }
}

}  // namespace reprieve::supervisor
