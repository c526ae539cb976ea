// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/launcher_command.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {

namespace {

using Words = std::vector<std::string>;

template <std::size_t size>
bool is_among(const std::array<std::string_view, size>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// An option of the launcher, with the words that belong to it.
struct LauncherOption {
  std::size_t begin = 0;  ///< the place of its name among the words of the command
  std::size_t end = 0;    ///< one behind the place of its last value
  std::string name;       ///< without dashes
  std::string value;      ///< the first one; empty if there is none
};

/// How many words belong to an option besides its name, at most.
std::size_t most_values_of(const std::string& name) {
  static constexpr std::array<std::string_view, 6> kTwo{"mca", "gmca", "prtemca", "pmixmca", "env", "genv"};
  static const std::set<std::string_view> kNone{"allow-run-as-root",
                                                "bind-to-core",
                                                "bind-to-socket",
                                                "bynode",
                                                "byslot",
                                                "continuous",
                                                "cpu-set",
                                                "debug-daemons",
                                                "debug-daemons-file",
                                                "debug-devel",
                                                "disable-recovery",
                                                "display-allocation",
                                                "display-devel-allocation",
                                                "display-devel-map",
                                                "display-map",
                                                "display-topo",
                                                "do-not-launch",
                                                "do-not-resolve",
                                                "enable-recovery",
                                                "exclusive",
                                                "forward-signals",
                                                "index-argv-by-rank",
                                                "leave-session-attached",
                                                "merge-stderr-to-stdout",
                                                "nolocal",
                                                "nooversubscribe",
                                                "no-local",
                                                "overlap",
                                                "oversubscribe",
                                                "pernode",
                                                "q",
                                                "quiet",
                                                "report-bindings",
                                                "report-child-jobs-separately",
                                                "show-progress",
                                                "staged",
                                                "tag-output",
                                                "timestamp-output",
                                                "tv",
                                                "use-hwthread-cpus",
                                                "v",
                                                "verbose",
                                                "xml",
                                                "xterm"};
  return is_among(kTwo, name) ? 2 : kNone.contains(name) ? 0 : 1;
}

/// Of a word that begins with a dash.
LauncherOption read_option(const Words& words, std::size_t place) {
  LauncherOption option{place, place + 1, words[place].substr(words[place].find_first_not_of('-')), ""};
  if (const auto equals = option.name.find('='); equals != std::string::npos) {
    option.value = option.name.substr(equals + 1);
    option.name.resize(equals);
    return option;
  }
  const auto digit = option.name.find_first_not_of('n');
  if (words[place].starts_with("-n") && digit == 1 &&
      option.name.find_first_not_of("0123456789", 1) == std::string::npos) {
    option.value = option.name.substr(1);  // "-n4"
    option.name.resize(1);
    return option;
  }
  const std::size_t limit = std::min(words.size(), option.end + most_values_of(option.name));
  while (option.end < limit && !words[option.end].starts_with('-')) {
    ++option.end;
  }
  option.value = option.end > place + 1 ? words[place + 1] : "";
  return option;
}

std::size_t launcher_place(const Words& words) {
  const auto found = std::find_if(words.begin(), words.end(), [](const std::string& each) {
    return is_launcher(std::filesystem::path(each).filename());
  });
  return static_cast<std::size_t>(found - words.begin());
}

/// Up to the program: what follows is its own.
std::vector<LauncherOption> launcher_options(const Words& words) {
  std::vector<LauncherOption> options;
  std::size_t place = launcher_place(words) + 1;
  while (place < words.size() && words[place].find_first_not_of('-') != std::string::npos &&
         words[place].starts_with('-')) {
    options.push_back(read_option(words, place));
    place = options.back().end;
  }
  return options;
}

bool is_number(const std::string& word) {
  return !word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == std::string::npos;
}

std::optional<LauncherOption> rank_option(const Words& words) {
  static constexpr std::array<std::string_view, 3> kNames{"n", "np", "ntasks"};
  for (const LauncherOption& option : launcher_options(words)) {
    if (is_among(kNames, option.name) && is_number(option.value)) {
      return option;
    }
  }
  return std::nullopt;
}

bool names_hosts(const LauncherOption& option) {
  static constexpr std::array<std::string_view, 2> kNames{"H", "host"};
  return is_among(kNames, option.name);
}

bool names_host_file(const LauncherOption& option) {
  static constexpr std::array<std::string_view, 3> kNames{"hostfile", "machinefile", "default-hostfile"};
  return is_among(kNames, option.name);
}

}  // namespace

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
  const std::size_t launcher = launcher_place(command);
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
  Words changed(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(launcher_place(command)) + 1);
  changed.insert(changed.end(), {"--host", to_text(hosts)});
  std::size_t place = changed.size() - 2;
  for (const LauncherOption& option : launcher_options(command)) {
    if (!names_hosts(option) && !names_host_file(option)) {
      changed.insert(changed.end(), command.begin() + static_cast<std::ptrdiff_t>(option.begin),
                     command.begin() + static_cast<std::ptrdiff_t>(option.end));
    }
    place = option.end;
  }
  changed.insert(changed.end(), command.begin() + static_cast<std::ptrdiff_t>(place), command.end());
  return changed;
}

Words on_host(const Words& command, const std::string& host, const Words& words) {
  static const std::set<std::string_view> kReach{
      "mca", "gmca", "prtemca", "pmixmca",           "prefix",         "launch-agent", "path",
      "x",   "tune", "am",      "allow-run-as-root", "do-not-resolve", "noprefix"};
  Words changed(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(launcher_place(command)) + 1);
  for (const LauncherOption& option : launcher_options(command)) {
    if (kReach.contains(option.name)) {
      changed.insert(changed.end(), command.begin() + static_cast<std::ptrdiff_t>(option.begin),
                     command.begin() + static_cast<std::ptrdiff_t>(option.end));
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
  const std::size_t launcher = launcher_place(command);
  if (launcher == command.size() || std::filesystem::path(command[launcher]).filename() != "srun") {
    return std::nullopt;
  }
  Words changed{command[launcher], "--ntasks-per-node=1", "--kill-on-bad-exit=0"};
  changed.insert(changed.end(), words.begin(), words.end());
  return changed;
}

}  // namespace reprieve::supervisor
