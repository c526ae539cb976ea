// SPDX-License-Identifier: BSD-3-Clause
// Near copies that a run has left: the last start has failed, no other follows, and the memory of the nodes is gone
// when the job ends. `reprieve drain` makes a checkpoint of them, on each node that the run used.

#include <fmt/format.h>

#include <algorithm>
#include <map>
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
/// For all rounds together, where a file system hangs: the job shall end some time.
constexpr std::chrono::minutes kDrainTimeout{30};
constexpr std::chrono::milliseconds kHostAnswerTimeout{20'000};
/// A host that could not be reached for a moment gets another turn, and after it those that lacked its parts.
constexpr int kDrainRounds = 3;
/// The code of `reprieve drain` where others had not brought all yet.
constexpr int kPartsAreMissing = 1;

/// What a command said, in one line, or else what mpirun says: that stands between lines of dashes, behind the rest.
std::string in_one_line(const std::string& output) {
  std::string text;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const bool is_frame = line.starts_with("----");
    if (is_frame && !text.empty()) {
      break;
    }
    if (!is_frame && !line.empty()) {
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

/// On several nodes by srun the last one completes the checkpoint; then the others can give back the memory.
void JobSupervisor::drain_here(const std::vector<std::string>& words) {
  const auto limit = Clock::now() + kDrainTimeout;
  std::string said;
  bool goes_on = true;
  for (int round = 0; round < kDrainRounds && goes_on; ++round) {
    const bool has_ended = run_drain(words, limit);
    const std::string text = has_ended ? in_one_line(command_->output()) : "stopped";
    if (std::exchange(said, text) != text) {
      say("near_drain", fmt::format("near copies: {}", text), {{"code", *command_->code()}});
    }
    goes_on = has_ended && *command_->code() == kPartsAreMissing;
  }
  command_.reset();
}

/// False if it was stopped before its end.
bool JobSupervisor::run_drain(const std::vector<std::string>& words, Clock::time_point limit) {
  command_ = std::make_unique<Command>(with_all_output(words), EnvironmentChanges{});
  bool is_killed = false;
  while (!command_->code()) {
    wait(kDrainWait);
    if (!is_killed && (draining_is_stopped() || Clock::now() >= limit)) {
      is_killed = true;
      command_->kill_all();
    }
  }
  return !is_killed;
}

/// Each brings what it has, and the last one completes the checkpoint. Then the others, who ended with an error since
/// parts were missing, can give back the memory. Hosts that are dead have nothing.
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
  const auto limit = Clock::now() + kDrainTimeout;
  std::map<std::string, std::string> said;
  for (int round = 0; round < kDrainRounds && !living.empty() && !draining_is_stopped(); ++round) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
    const auto drained = run_on(living, std::max(left, std::chrono::milliseconds(0)), words);
    for (const auto& [host, answer] : drained->answers()) {
      const std::string text = in_one_line(answer);
      if (std::exchange(said[host], text) != text) {
        say("near_drain", fmt::format("near copies on {}: {}", host, text), {{"host", host}});
      }
    }
    std::erase_if(living, [&](const HostSlots& host) { return !drained->dead().contains(host.name); });
  }
}

}  // namespace reprieve::supervisor
