// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/hosts.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <sstream>

#include "core/log.hpp"
#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {

namespace {

int to_number(const std::string& text) {
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() ? std::max(number, 0) : 0;
}

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

}  // namespace

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
  struct Lines {
    int plain = 0;
    int slots = 0;
  };
  std::vector<HostSlots> hosts;
  std::vector<Lines> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    std::string name;
    if (!(words >> name)) {
      continue;
    }
    const auto place = static_cast<std::size_t>(&entry_of(hosts, name) - hosts.data());
    lines.resize(hosts.size());
    std::smatch found;
    if (std::regex_search(line, found, kSlots)) {
      lines[place].slots += to_number(found[2]);
    } else {
      ++lines[place].plain;
    }
  }
  for (std::size_t place = 0; place < hosts.size(); ++place) {
    const bool is_unknown = lines[place].slots == 0 && lines[place].plain == 1;
    hosts[place].slots = is_unknown ? 0 : lines[place].slots + lines[place].plain;
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
  std::string text;
  for (const HostSlots& host : hosts) {
    text += (text.empty() ? "" : ",") + host.name + ":" + (host.slots > 0 ? std::to_string(host.slots) : "*");
  }
  return text;
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

namespace {

/// Each is a launcher, with its daemon on the other host.
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

HostProbe::HostProbe(std::vector<std::string> command, const std::vector<HostSlots>& hosts,
                     std::chrono::milliseconds patience, std::vector<std::string> words, int attempts)
    : command_(std::move(command)), patience_(patience), words_(std::move(words)) {
  for (const HostSlots& host : hosts) {
    waiting_.push_back(host.name);
    attempts_left_[host.name] = attempts;
  }
  std::reverse(waiting_.begin(), waiting_.end());
}

HostProbe::~HostProbe() {
  for (const auto& [host, running] : running_) {
    running.command->kill_all();
  }
}

void HostProbe::advance() {
  while (!waiting_.empty() && running_.size() < kMostAtATime) {
    const std::string host = waiting_.back();
    Running& started = running_[host];
    started.command =
        std::make_unique<Command>(with_all_output(on_host(command_, host, with_rest(words_))), EnvironmentChanges{});
    started.limit = Clock::now() + patience_;
    --attempts_left_[host];
    waiting_.pop_back();
  }
  for (const auto& [host, running] : running_) {
    if (Clock::now() >= running.limit && dead_.emplace(host, "no answer in " + core::duration_text(patience_)).second) {
      running.command->kill_all();  // and its end is waited for
    }
  }
}

void HostProbe::on_ended(const EndedChild& child) {
  for (auto each = running_.begin(); each != running_.end();) {
    Command& command = *each->second.command;
    command.on_ended(child);
    if (command.code()) {
      answers_[each->first] = command.output();
    }
    if (command.code() && *command.code() != 0 && !dead_.contains(each->first)) {
      if (attempts_left_[each->first] > 0) {
        waiting_.push_back(each->first);
      } else {
        dead_.emplace(each->first, first_words(command.output()));
      }
    }
    each = command.code() ? running_.erase(each) : std::next(each);
  }
}

}  // namespace reprieve::supervisor
