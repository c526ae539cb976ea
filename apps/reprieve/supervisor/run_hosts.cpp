// SPDX-License-Identifier: BSD-3-Clause
// On which hosts a start of the program runs: those of its command, or of the job, that answer.

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include "core/process.hpp"
#include "reprieve/error.hpp"
#include "supervisor/hosts.hpp"
#include "supervisor/job_supervisor.hpp"
#include "supervisor/launcher.hpp"
#include "supervisor/processes.hpp"
#include "supervisor/supervised_run.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::supervisor {

namespace {

using namespace std::chrono_literals;

constexpr auto kProbeWait = 50ms;
constexpr const char* kQuestion = "true";
constexpr int kAttempts = 2;
constexpr std::chrono::seconds kNodeNamesTimeout{30};

std::vector<HostSlots> read_host_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw UsageError("cannot read the file of hosts " + path);
  }
  return parse_host_file({std::istreambuf_iterator<char>(file), {}});
}

/// That a batch system has made for the job.
std::optional<std::string> host_file_of_job() {
  const auto of_pbs = core::environment_variable("PBS_NODEFILE");
  return of_pbs ? of_pbs : core::environment_variable("LSB_DJOB_HOSTFILE");
}

int slots_of(const std::vector<HostSlots>& hosts, int spares) {
  int slots = 0;
  for (std::size_t place = 0; place + static_cast<std::size_t>(spares) < hosts.size(); ++place) {
    if (hosts[place].slots == 0) {
      return 0;
    }
    slots += hosts[place].slots;
  }
  return slots;
}

std::string join(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const HostSlots& host : hosts) {
    names.push_back(host.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string JobSupervisor::slurm_node_names() {
  const auto limit = Clock::now() + kNodeNamesTimeout;
  command_ = std::make_unique<Command>(std::vector<std::string>{"scontrol", "show", "hostnames"}, EnvironmentChanges{});
  while (!command_->code() && Clock::now() < limit) {
    wait(kProbeWait);
  }
  std::string names = command_->code() == 0 ? command_->output() : "";
  command_.reset();
  return names;
}

/// Those that Open MPI's mpirun may use, by its command or by the job. Empty where it is not in the command.
std::vector<HostSlots> JobSupervisor::known_hosts() {
  const auto named = hosts_of(settings_.command);
  if (!named) {
    return {};
  }
  std::vector<HostSlots> hosts = parse_host_list(fmt::format("{}", fmt::join(named->lists, ",")));
  if (named->lists.empty()) {
    for (const std::string& file : named->files) {
      const auto more = read_host_file(file);
      hosts.insert(hosts.end(), more.begin(), more.end());
    }
  }
  if (hosts.empty() && core::environment_variable("SLURM_JOB_NODELIST")) {
    hosts = slurm_hosts(slurm_node_names(), core::environment_variable("SLURM_TASKS_PER_NODE").value_or(""));
  } else if (const auto file = host_file_of_job(); hosts.empty() && file) {
    hosts = read_host_file(*file);
  }
  return hosts;
}

/// Once, before the first start.
void JobSupervisor::read_hosts() {
  if (!settings_.hosts) {
    return;
  }
  if (!hosts_of(settings_.command)) {
    throw UsageError("hosts can be left out where the command has Open MPI's mpirun in it, not inside of a script");
  }
  if (std::find(settings_.command.begin(), settings_.command.end(), ":") != settings_.command.end()) {
    throw UsageError(
        "hosts cannot be left out of a command that starts several programs (\":\"): each has its own hosts");
  }
  need_.hosts = known_hosts();
  if (need_.hosts.empty()) {
    throw UsageError(
        "hosts can be left out where they are known: by mpirun's --host or --hostfile, or from Slurm, PBS "
        "or LSF");
  }
  need_.spares = settings_.hosts->spares;
  if (need_.hosts.size() <= static_cast<std::size_t>(need_.spares)) {
    throw UsageError(fmt::format("--spares {} leaves none of the hosts {}", need_.spares, join(need_.hosts)));
  }
  need_.ranks = ranks_of(settings_.command).value_or(slots_of(need_.hosts, need_.spares));
  need_.min_ranks = settings_.hosts->min_ranks.value_or(need_.ranks);
  if (need_.min_ranks > need_.ranks && need_.ranks > 0) {
    throw UsageError(fmt::format("--min-ranks {} is more than the command has: {}", need_.min_ranks, need_.ranks));
  }
  if (need_.ranks == 0) {
    throw UsageError("to leave hosts out, give the number of ranks to mpirun (-n), or the slots of each host");
  }
}

std::set<std::string> JobSupervisor::find_dead_hosts() {
  say("hosts_asked", fmt::format("asking each host whether it answers: {}", need_.hosts.size()));
  probe_ = std::make_unique<HostProbe>(settings_.command, need_.hosts, settings_.hosts->patience,
                                       std::vector<std::string>{kQuestion}, kAttempts);
  while (!probe_->is_done() && !plan_.requested()) {
    probe_->advance();
    wait(kProbeWait);
  }
  std::set<std::string> dead;
  for (const auto& [host, why] : probe_->dead()) {
    dead.insert(host);
  }
  const bool is_telling = dead.size() < need_.hosts.size();
  if (is_telling) {
    for (const auto& [host, why] : probe_->dead()) {
      say("host_left_out", fmt::format("the host {} is left out: {}", host, why), {{"host", host}, {"message", why}});
    }
  } else {
    say("warning", fmt::format("no host answers {}, so none is left out: {}", settings_.command.front(),
                               probe_->dead().begin()->second));
    dead.clear();
  }
  probe_.reset();
  return dead;
}

/// False if the program cannot be started, or is not to be.
bool JobSupervisor::choose_hosts_of_start() {
  if (!settings_.hosts) {
    return true;
  }
  const auto choice = choose_hosts(need_, find_dead_hosts());
  if (plan_.requested() && starts_ > 0) {
    return false;
  }
  if (!choice) {
    say("give_up", fmt::format("too few hosts answer: {} ranks have no room there (--min-ranks)", need_.min_ranks));
    return false;
  }
  command_line_ = with_hosts(settings_.command, choice->hosts);
  command_line_ = with_ranks(command_line_, choice->ranks).value_or(command_line_);
  say("hosts", fmt::format("ranks: {}, on {}", choice->ranks, join(choice->hosts)),
      {{"ranks", choice->ranks}, {"hosts", to_text(choice->hosts)}});
  return true;
}

// Node-local copies that a run has left: the last start has failed, no other follows, and the memory of the nodes is
// gone when the job ends. `reprieve drain` makes a checkpoint of them, on each node that the run used.

namespace {

constexpr auto kDrainWait = 50ms;
/// For all rounds together, where a file system hangs: the job shall end some time.
constexpr std::chrono::minutes kDrainTimeout{30};
constexpr std::chrono::milliseconds kHostAnswerTimeout{20'000};
/// A host that could not be reached for a moment gets another turn, and after it those that lacked its parts.
constexpr int kDrainRounds = 3;
/// The code of `reprieve drain` where others had not flushed all yet.
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

void JobSupervisor::flush_local_copies(const Verdict& verdict) {
  if (verdict.end != Verdict::End::failed || !settings_.flushes_local_copies || run_directory_->is_dry_run() ||
      kill_at_) {
    return;
  }
  decided_before_drain_ = slurm_decided_;
  interrupts_before_drain_ = interrupts_;
  for (const auto& [record, chief] : run_->progress().chiefs()) {
    if (chief.local_directory.empty()) {
      continue;
    }
    const std::vector<std::string> words{settings_.tool.string(), "drain", chief.directory.string(), "--local",
                                         chief.local_directory.string()};
    try {
      const std::vector<HostSlots> hosts = need_.hosts.empty() ? known_hosts() : need_.hosts;
      if (hosts.size() > 1) {
        drain_on_hosts(words, hosts);
      } else {
        drain_here(on_nodes_of_srun(settings_.command, words).value_or(words));
      }
    } catch (const Error& error) {
      say("warning", fmt::format("node-local copies are left where they are: {}", error.what()));
    }
  }
}

/// On several nodes by srun the last one completes the checkpoint; then the others can give back the memory.
void JobSupervisor::drain_here(const std::vector<std::string>& words) {
  const auto limit = Clock::now() + kDrainTimeout;
  std::string said;
  bool keeps_running = true;
  for (int round = 0; round < kDrainRounds && keeps_running; ++round) {
    const bool has_ended = run_drain(words, limit);
    const std::string text = has_ended ? in_one_line(command_->output()) : "stopped";
    if (std::exchange(said, text) != text) {
      say("local_drain", fmt::format("node-local copies: {}", text), {{"code", *command_->code()}});
    }
    keeps_running = has_ended && *command_->code() == kPartsAreMissing;
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

/// Each flushes what it has, and the last one completes the checkpoint. Then the others, who ended with an error since
/// parts were missing, can give back the memory. Hosts that are dead have nothing.
void JobSupervisor::drain_on_hosts(const std::vector<std::string>& words, const std::vector<HostSlots>& hosts) {
  const auto run_on = [&](const std::vector<HostSlots>& which, std::chrono::milliseconds patience,
                          const std::vector<std::string>& what, int attempts) {
    probe_ = std::make_unique<HostProbe>(settings_.command, which, patience, what, attempts);
    while (!probe_->is_done() && !draining_is_stopped()) {
      probe_->advance();
      wait(kDrainWait);
    }
    return std::exchange(probe_, nullptr);
  };
  const auto patience = settings_.hosts ? settings_.hosts->patience : kHostAnswerTimeout;
  std::vector<HostSlots> living = hosts;
  const auto asked = run_on(hosts, patience, {kQuestion}, kAttempts);
  std::erase_if(living, [&](const HostSlots& host) { return asked->dead().contains(host.name); });
  if (living.empty() || draining_is_stopped()) {
    say("warning", "node-local copies are left where they are: no host answers");
    return;
  }
  const auto limit = Clock::now() + kDrainTimeout;
  std::map<std::string, std::string> said;
  for (int round = 0; round < kDrainRounds && !living.empty() && !draining_is_stopped(); ++round) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
    const auto drained = run_on(living, std::max(left, std::chrono::milliseconds(0)), words, 1);
    for (const auto& [host, answer] : drained->answers()) {
      const std::string text = in_one_line(answer);
      if (std::exchange(said[host], text) != text) {
        say("local_drain", fmt::format("node-local copies on {}: {}", host, text), {{"host", host}});
      }
    }
    std::erase_if(living, [&](const HostSlots& host) { return !drained->dead().contains(host.name); });
  }
}

}  // namespace reprieve::supervisor
