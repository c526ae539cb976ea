// SPDX-License-Identifier: BSD-3-Clause
// On which hosts a start of the program runs: those of its command, or of the job, that answer.

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/environment.hpp"
#include "reprieve/error.hpp"
#include "supervisor/command.hpp"
#include "supervisor/host_probe.hpp"
#include "supervisor/job_supervisor.hpp"
#include "supervisor/launcher_command.hpp"
#include "termination/slurm_job.hpp"

namespace reprieve::supervisor {

namespace {

using namespace std::chrono_literals;

constexpr auto kProbeWait = 50ms;
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
  probe_ = std::make_unique<HostProbe>(settings_.command, need_.hosts, settings_.hosts->patience);
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

}  // namespace reprieve::supervisor
