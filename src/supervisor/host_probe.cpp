// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/host_probe.hpp"

#include <signal.h>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/text.hpp"
#include "supervisor/command.hpp"
#include "supervisor/launcher_command.hpp"

namespace reprieve::supervisor {

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
                     std::chrono::milliseconds patience, std::vector<std::string> words)
    : command_(std::move(command)), patience_(patience), words_(std::move(words)) {
  for (const HostSlots& host : hosts) {
    waiting_.push_back(host.name);
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
    if (command.code() && *command.code() != 0) {
      dead_.emplace(each->first, first_words(command.output()));
    }
    each = command.code() ? running_.erase(each) : std::next(each);
  }
}

}  // namespace reprieve::supervisor
