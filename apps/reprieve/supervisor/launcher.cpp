// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string_view>

#include "core/log.hpp"
#include "core/run_record.hpp"
#include "core/values.hpp"
#include "reprieve/error.hpp"
#include "termination/signal_flag.hpp"
#include "text.hpp"

namespace reprieve::supervisor {

namespace {

bool watches(const ManagerProgress& manager, int signal) {
  return std::ranges::find(manager.ready.signals, termination::signal_name(signal)) != manager.ready.signals.end();
}

/// The signal that launchers forward and every rank 0 watches. A program that reports nothing is sent SIGUSR1.
std::optional<int> forwarded_signal(const RunProgress& progress) {
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    const auto may_get_it = [&](const ManagerProgress& manager) {
      return manager.stage != ManagerProgress::Stage::running || watches(manager, signal);
    };
    if (std::ranges::all_of(progress.managers(), may_get_it, core::kMapped)) {
      return signal;
    }
  }
  return std::nullopt;
}

/// Those that no other launcher has started: srun, for one, has a helper process.
std::vector<pid_t> outermost_launchers(const std::vector<ProcessInfo>& processes) {
  std::set<pid_t> inside;
  std::vector<pid_t> found;
  for (const ProcessInfo& process : processes) {
    if (inside.contains(process.parent)) {
      inside.insert(process.pid);
    } else if (is_launcher(process.program)) {
      inside.insert(process.pid);
      found.push_back(process.pid);
    }
  }
  return found;
}

/// The signal that a single rank takes for a notice.
std::optional<int> watched_signal(const ManagerProgress& manager) {
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP}) {
    if (watches(manager, signal)) {
      return signal;
    }
  }
  return std::nullopt;
}

std::vector<NoticeTarget> local_managers(const std::vector<ProcessInfo>& processes, const RunProgress& progress,
                                         const std::string& host) {
  std::vector<NoticeTarget> targets;
  for (const auto& [record, manager] : progress.managers()) {
    const bool lives = std::ranges::find(processes, manager.start.pid, &ProcessInfo::pid) != processes.end();
    const auto signal = watched_signal(manager);
    if (lives && manager.start.host == host && manager.stage == ManagerProgress::Stage::running && signal) {
      targets.push_back({manager.start.pid, *signal});
    }
  }
  return targets;
}

bool has_space(const std::string& text) { return text.find_first_of(" \t") != std::string::npos; }

/// Keepalive probes of the launcher's connections: half of the time idle, then six probes.
void set_link_timeout(EnvironmentChanges& changes, const std::string& variables, int timeout_s) {
  constexpr int kProbes = 6;
  const std::string prefix = variables + "oob_tcp_keepalive_";
  changes[prefix + "time"] = std::to_string(std::max(1, timeout_s / 2));
  changes[prefix + "intvl"] = std::to_string(std::max(1, timeout_s / 2 / kProbes));
  changes[prefix + "probes"] = std::to_string(kProbes);
}

/// Whether @p word is one of some words with blanks between them.
bool is_among(std::string_view words, const std::string& word) {
  const bool is_one = !word.empty() && word.find(' ') == std::string::npos;
  return is_one && fmt::format(" {} ", words).find(" " + word + " ") != std::string::npos;
}

using Words = std::vector<std::string>;

/// An option of the launcher, with the words that belong to it.
struct LauncherOption {
  std::size_t begin = 0;  ///< the index of its name among the words of the command
  std::size_t end = 0;    ///< one behind the index of its last value
  std::string name;       ///< without dashes
  std::string value;      ///< the first one; empty if there is none
};

/// How many words belong to an option besides its name, at most.
std::size_t most_values_of(const std::string& name) {
  constexpr std::string_view kNone =
      "allow-run-as-root bind-to-core bind-to-socket bynode byslot continuous cpu-set debug-daemons "
      "debug-daemons-file debug-devel disable-recovery display-allocation display-devel-allocation "
      "display-devel-map display-map display-topo do-not-launch do-not-resolve enable-recovery exclusive "
      "forward-signals index-argv-by-rank leave-session-attached merge-stderr-to-stdout nolocal "
      "nooversubscribe no-local overlap oversubscribe pernode q quiet report-bindings "
      "report-child-jobs-separately show-progress staged tag-output timestamp-output tv use-hwthread-cpus v "
      "verbose xml xterm";
  return is_among("mca gmca prtemca pmixmca env genv", name) ? 2 : is_among(kNone, name) ? 0 : 1;
}

/// Of a word that begins with a dash.
LauncherOption read_option(const Words& words, std::size_t index) {
  LauncherOption option{index, index + 1, words[index].substr(words[index].find_first_not_of('-')), ""};
  if (const auto equals = option.name.find('='); equals != std::string::npos) {
    option.value = option.name.substr(equals + 1);
    option.name.resize(equals);
    return option;
  }
  const auto digit = option.name.find_first_not_of('n');
  if (words[index].starts_with("-n") && digit == 1 &&
      option.name.find_first_not_of("0123456789", 1) == std::string::npos) {
    option.value = option.name.substr(1);  // "-n4"
    option.name.resize(1);
    return option;
  }
  const std::size_t limit = std::min(words.size(), option.end + most_values_of(option.name));
  while (option.end < limit && !words[option.end].starts_with('-')) {
    ++option.end;
  }
  option.value = option.end > index + 1 ? words[index + 1] : "";
  return option;
}

std::size_t launcher_index(const Words& words) {
  const auto found = std::ranges::find_if(
      words, [](const std::string& each) { return is_launcher(std::filesystem::path(each).filename()); });
  return static_cast<std::size_t>(found - words.begin());
}

/// Up to the program: what follows is its own.
std::vector<LauncherOption> launcher_options(const Words& words) {
  std::vector<LauncherOption> options;
  std::size_t index = launcher_index(words) + 1;
  while (index < words.size() && words[index].find_first_not_of('-') != std::string::npos &&
         words[index].starts_with('-')) {
    options.push_back(read_option(words, index));
    index = options.back().end;
  }
  return options;
}

std::optional<LauncherOption> rank_option(const Words& words) {
  for (const LauncherOption& option : launcher_options(words)) {
    if (is_among("n np ntasks", option.name) && core::number_in<int>(option.value).value_or(-1) >= 0) {
      return option;
    }
  }
  return std::nullopt;
}

bool names_hosts(const LauncherOption& option) { return is_among("H host", option.name); }

bool names_host_file(const LauncherOption& option) {
  return is_among("hostfile machinefile default-hostfile", option.name);
}

/// The words of an option at the end of another command.
void append(Words& to, const Words& command, const LauncherOption& option) {
  to.insert(to.end(), &command[option.begin], &command[option.begin] + (option.end - option.begin));
}

int to_number(const std::string& text) { return std::max(core::number_in<int>(text).value_or(0), 0); }

HostSlots& entry_of(std::vector<HostSlots>& hosts, const std::string& name) {
  const auto found = std::ranges::find(hosts, name, &HostSlots::name);
  return found != hosts.end() ? *found : hosts.emplace_back(HostSlots{name, 0});
}

/// The slots of all, or their number where the slots of one are unknown.
int weight_of(const std::vector<HostSlots>& hosts, bool by_slots) {
  int weight = 0;
  for (const HostSlots& host : hosts) {
    weight += by_slots ? host.slots : 1;
  }
  return weight;
}

/// What a host is asked: a launcher, with its daemon on that host.
struct Question : Command {
  using Command::Command;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  ~Question() { kill_all(); }

  std::chrono::steady_clock::time_point limit;
};
constexpr std::size_t kMostAtATime = 32;

/// The first line that is text, and no frame around it.
std::string first_words(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of("-=* \t") != std::string::npos) {
      return line;
    }
  }
  return "it ended with an error";
}

}  // namespace

const std::vector<LauncherTraits>& launchers() {
  static const std::vector<LauncherTraits> kLaunchers{
      {.name = "Open MPI 4.1",
       .programs = {"orterun"},
       .is_open_mpi = true,
       .variables = "OMPI_MCA_",
       .agent = "orte_launch_agent",
       .daemon = "orted",
       .kill_parameter = "odls_base_sigkill_timeout",
       .kill_s = 2},
      {.name = "Open MPI 5.0",
       .programs = {"prterun", "prte"},
       .is_open_mpi = true,
       .variables = "PRTE_MCA_",
       .agent = "prte_launch_agent",
       .daemon = "prted",
       .kill_s = 0.5},
      {.name = "MPICH", .programs = {"mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra"}},
      {.name = "Slurm", .programs = {"srun"}, .has_children = false},
      {.name = "PRRTE", .programs = {"prun"}, .has_children = false, .is_open_mpi = true},
      // Names that several launchers share.
      {.name = "mpirun", .programs = {"mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi"}, .is_open_mpi = true},
  };
  return kLaunchers;
}

const LauncherTraits* open_mpi_of(const std::string& version_line) {
  const auto& all = launchers();
  const auto found = std::ranges::find_if(all, [&](const LauncherTraits& each) {
    const std::string number = each.name.substr(each.name.rfind(' ') + 1);
    return !each.daemon.empty() && version_line.find("(Open MPI) " + number + ".") != std::string::npos;
  });
  return found == all.end() ? nullptr : &*found;
}

std::string kill_times() {
  std::string text;
  for (const LauncherTraits& each : launchers()) {
    if (each.kill_s > 0) {
      text += fmt::format("{}{} after {:g} s", text.empty() ? "" : ", ", each.name, each.kill_s);
    }
  }
  return text;
}

const LauncherTraits* traits_of(const std::string& program) {
  for (const LauncherTraits& each : launchers()) {
    if (std::ranges::find(each.programs, program) != each.programs.end()) {
      return &each;
    }
  }
  return nullptr;
}

std::vector<std::string> launcher_commands() {
  std::vector<std::string> names;
  for (const LauncherTraits& each : launchers()) {
    names.insert(names.end(), each.programs.begin(), each.programs.end());
  }
  return names;
}

std::vector<NoticeTarget> notice_targets(pid_t started, const std::vector<ProcessInfo>& processes,
                                         const RunProgress& progress, const std::string& host) {
  const auto signal = forwarded_signal(progress);
  std::vector<NoticeTarget> targets;
  if (signal) {
    for (const pid_t launcher : outermost_launchers(processes)) {
      targets.push_back({launcher, *signal});
    }
  }
  if (targets.empty()) {
    targets = local_managers(processes, progress, host);
  }
  if (targets.empty() && signal) {
    targets.push_back({started, *signal});
  }
  return targets;
}

EnvironmentChanges launch_environment(const LaunchSettings& settings, const EnvironmentLookup& environment) {
  EnvironmentChanges changes;
  changes[core::kRunDirectoryVariable] = settings.run_directory.string();
  if (settings.watches_end) {
    changes[core::kWatchesEndVariable] = "1";
  }
  // The launcher splits the value at blanks, and what stands last is its daemon.
  const std::string directory = settings.directory ? settings.directory->string() : "";
  const bool can_be_split =
      !has_space(settings.tool.string()) && !has_space(settings.run_directory.string()) && !has_space(directory);
  for (const LauncherTraits& each : launchers()) {
    if (settings.shield_daemons && can_be_split && !each.agent.empty()) {
      changes[each.variables + each.agent] =
          fmt::format("{} launch-agent --run-dir {}{} {}", settings.tool.string(), settings.run_directory.string(),
                      directory.empty() ? "" : " --directory " + directory, each.daemon);
    }
    if (settings.link_timeout_s > 0 && !each.variables.empty()) {
      set_link_timeout(changes, each.variables, settings.link_timeout_s);
    }
  }
  std::erase_if(changes, [&](const auto& change) {
    return change.first != core::kRunDirectoryVariable && environment(change.first).has_value();
  });
  if (!directory.empty()) {
    changes[core::kDirectoryVariable] = directory;
  }
  return changes;
}

bool spans_nodes(const std::vector<std::string>& command, const EnvironmentLookup& environment) {
  constexpr std::string_view kHostOptions =
      "-H -host --host -hostfile --hostfile -machinefile --machinefile --default-hostfile";
  const bool named = std::ranges::any_of(command, [&](const auto& word) { return is_among(kHostOptions, word); });
  return named || environment("SLURM_JOB_NUM_NODES").value_or("1") != "1" || environment("PBS_NODEFILE") ||
         environment("LSB_DJOB_HOSTFILE");
}

std::optional<int> ranks_of(const Words& command) {
  const auto option = rank_option(command);
  return option ? std::optional(std::stoi(option->value)) : std::nullopt;
}

std::optional<Words> with_ranks(Words command, int ranks) {
  const auto option = rank_option(command);
  if (!option) {
    return std::nullopt;
  }
  const std::string& old = option->value;
  std::string& word = command[option->end - 1];
  word.replace(word.size() - old.size(), old.size(), std::to_string(ranks));
  return command;
}

std::optional<NamedHosts> hosts_of(const Words& command) {
  const std::size_t launcher = launcher_index(command);
  if (launcher == command.size() || !is_open_mpi(std::filesystem::path(command[launcher]).filename())) {
    return std::nullopt;
  }
  NamedHosts named;
  for (const LauncherOption& option : launcher_options(command)) {
    if (names_hosts(option)) {
      named.lists.push_back(option.value);
    } else if (names_host_file(option)) {
      named.files.push_back(option.value);
    }
  }
  return named;
}

Words with_hosts(const Words& command, const std::vector<HostSlots>& hosts) {
  Words changed(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(launcher_index(command)) + 1);
  changed.insert(changed.end(), {"--host", to_text(hosts)});
  std::size_t index = changed.size() - 2;
  for (const LauncherOption& option : launcher_options(command)) {
    if (!names_hosts(option) && !names_host_file(option)) {
      append(changed, command, option);
    }
    index = option.end;
  }
  changed.insert(changed.end(), command.begin() + static_cast<std::ptrdiff_t>(index), command.end());
  return changed;
}

Words on_host(const Words& command, const std::string& host, const Words& words) {
  constexpr std::string_view kReach =
      "mca gmca prtemca pmixmca prefix launch-agent path x tune am allow-run-as-root do-not-resolve noprefix";
  Words changed(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(launcher_index(command)) + 1);
  for (const LauncherOption& option : launcher_options(command)) {
    if (is_among(kReach, option.name)) {
      append(changed, command, option);
    }
  }
  changed.insert(changed.end(), {"--host", host, "-n", "1"});
  changed.insert(changed.end(), words.begin(), words.end());
  return changed;
}

Words with_rest(const Words& words) {
  Words changed{"sh", "-c", R"("$@"; code=$?; sleep 0.3; exit $code)", "sh"};
  changed.insert(changed.end(), words.begin(), words.end());
  return changed;
}

std::optional<Words> on_nodes_of_srun(const Words& command, const Words& words) {
  const std::size_t launcher = launcher_index(command);
  if (launcher == command.size() || std::filesystem::path(command[launcher]).filename() != "srun") {
    return std::nullopt;
  }
  Words changed{command[launcher], "--ntasks-per-node=1", "--kill-on-bad-exit=0"};
  changed.insert(changed.end(), words.begin(), words.end());
  return changed;
}

std::vector<HostSlots> parse_host_list(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto colon = word.find(':');
    const std::string slots = colon == std::string::npos ? "1" : word.substr(colon + 1);
    if (const std::string name = word.substr(0, colon); !name.empty()) {
      entry_of(hosts, name).slots += to_number(slots);  // "*" is 0: as many as the launcher finds
    }
  }
  return hosts;
}

std::vector<HostSlots> parse_host_file(const std::string& text) {
  static const std::regex kSlots(R"(\b(slots|count)\s*=\s*([0-9]+))");
  std::vector<HostSlots> hosts;
  std::map<std::string, int> lines_without_slots;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    std::string name;
    if (!(words >> name)) {
      continue;
    }
    HostSlots& host = entry_of(hosts, name);
    std::smatch found;
    if (std::regex_search(line, found, kSlots)) {
      host.slots += to_number(found[2]);
    } else {
      ++lines_without_slots[name];
    }
  }
  for (HostSlots& host : hosts) {
    const int more = lines_without_slots[host.name];
    const bool is_unknown = host.slots == 0 && more == 1;
    host.slots += is_unknown ? 0 : more;
  }
  return hosts;
}

std::vector<HostSlots> slurm_hosts(const std::string& names, const std::string& tasks_per_node) {
  static const std::regex kGroup(R"(([0-9]+)(\(x([0-9]+)\))?)");
  std::vector<int> slots;
  for (std::sregex_iterator group(tasks_per_node.begin(), tasks_per_node.end(), kGroup), end; group != end; ++group) {
    const int count = (*group)[3].matched ? to_number((*group)[3]) : 1;
    slots.insert(slots.end(), static_cast<std::size_t>(count), to_number((*group)[1]));
  }
  std::vector<HostSlots> hosts;
  std::istringstream lines(names);
  for (std::string name; lines >> name;) {
    hosts.push_back({name, hosts.size() < slots.size() ? slots[hosts.size()] : 0});
  }
  return hosts;
}

std::string to_text(const std::vector<HostSlots>& hosts) {
  const auto text_of = [](const HostSlots& host) {
    return host.name + ":" + (host.slots > 0 ? std::to_string(host.slots) : "*");
  };
  return tool::joined(hosts, text_of, ",");
}

std::vector<HostSlots> read_host_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw UsageError("cannot read the file of hosts " + path);
  }
  return parse_host_file({std::istreambuf_iterator<char>(file), {}});
}

std::string host_names(const std::vector<HostSlots>& hosts) { return tool::joined(hosts, &HostSlots::name); }

int slots_of(const std::vector<HostSlots>& hosts, int spares) {
  int slots = 0;
  for (std::size_t index = 0; index + static_cast<std::size_t>(spares) < hosts.size(); ++index) {
    if (hosts[index].slots == 0) {
      return 0;
    }
    slots += hosts[index].slots;
  }
  return slots;
}

std::optional<HostChoice> choose_hosts(const HostNeed& need, const std::set<std::string>& dead) {
  const std::size_t used = need.hosts.size() - std::min(static_cast<std::size_t>(need.spares), need.hosts.size());
  const std::vector<HostSlots> usual(need.hosts.begin(), need.hosts.begin() + static_cast<std::ptrdiff_t>(used));
  const bool has_slots = std::ranges::find(need.hosts, 0, &HostSlots::slots) == need.hosts.end();
  const int usual_weight = weight_of(usual, has_slots);
  const int wanted_weight = has_slots ? std::min(need.ranks, usual_weight) : usual_weight;
  HostChoice choice;
  for (const HostSlots& host : need.hosts) {
    const bool is_needed = choice.hosts.size() < used || weight_of(choice.hosts, has_slots) < wanted_weight;
    if (is_needed && !dead.contains(host.name)) {
      choice.hosts.push_back(host);
    }
  }
  const int weight = weight_of(choice.hosts, has_slots);
  if (weight >= wanted_weight) {
    choice.ranks = need.ranks;
  } else if (has_slots && need.ranks <= usual_weight) {
    choice.ranks = weight;
  } else {
    choice.ranks = static_cast<int>(static_cast<std::int64_t>(need.ranks) * weight / usual_weight);
  }
  const bool is_enough = !choice.hosts.empty() && choice.ranks >= std::max(need.min_ranks, 1);
  return is_enough ? std::optional(choice) : std::nullopt;
}

std::optional<std::string> HostAnswers::host_that_says(const std::string& line) const {
  for (const auto& [host, answer] : answers) {
    if (("\n" + answer + "\n").find("\n" + line + "\n") != std::string::npos) {
      return host;
    }
  }
  return std::nullopt;
}

HostAnswers ask_hosts(const Words& command, const std::vector<HostSlots>& hosts, std::chrono::milliseconds patience,
                      const Words& words, int attempts, const std::function<bool()>& wait) {
  using Clock = std::chrono::steady_clock;
  HostAnswers result;
  std::vector<std::string> waiting;  // the next one is the last
  std::ranges::transform(hosts.rbegin(), hosts.rend(), std::back_inserter(waiting), &HostSlots::name);
  std::map<std::string, int> begun;
  std::map<std::string, Question> running;
  do {
    for (auto each = running.begin(); each != running.end();) {
      auto& [host, question] = *each;
      const auto code = question.code();
      if (code) {
        result.answers[host] = question.output();
      }
      if (code.value_or(0) != 0 && !result.dead.contains(host)) {
        if (begun[host] < attempts) {
          waiting.push_back(host);
        } else {
          result.dead.emplace(host, first_words(question.output()));
        }
      }
      each = code ? running.erase(each) : std::next(each);
    }
    for (; !waiting.empty() && running.size() < kMostAtATime; waiting.pop_back()) {
      const std::string& host = waiting.back();
      running.try_emplace(host, with_all_output(on_host(command, host, with_rest(words)))).first->second.limit =
          Clock::now() + patience;
      ++begun[host];
    }
    for (auto& [host, question] : running) {
      if (Clock::now() >= question.limit &&
          result.dead.emplace(host, "no answer in " + core::duration_text(patience)).second) {
        question.kill_all();  // and its end is waited for
      }
    }
  } while ((!waiting.empty() || !running.empty()) && wait());
  return result;
}

}  // namespace reprieve::supervisor
