// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/supervised_run.hpp"

#include <signal.h>  // NOLINT: kill is POSIX, not in <csignal>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "core/environment.hpp"
#include "core/event_log.hpp"
#include "core/event_reader.hpp"
#include "core/log.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::supervisor {

namespace {

/// False if the process has gone.
bool send(pid_t pid, int signal) {
  if (::kill(pid, signal) == 0) {
    return true;
  }
  if (errno != ESRCH) {
    core::log::warning("cannot send {} to process {}: {}", termination::signal_name(signal), pid,
                       std::generic_category().message(errno));
  }
  return false;
}

}  // namespace

SupervisedRun::SupervisedRun(const std::vector<std::string>& command, const LaunchSettings& settings)
    : reader_(settings.run_directory),
      pid_(spawn({.arguments = command,
                  .environment = launch_environment(settings, core::environment_variable),
                  .shield = settings.shield,
                  .output = settings.output})) {}

void SupervisedRun::on_ended(const EndedChild& child) {
  if (child.pid == pid_) {
    code_ = child.code;
  }
}

std::vector<RecordedEvent> SupervisedRun::read_record() {
  std::vector<RecordedEvent> events = reader_.read_new();
  for (const RecordedEvent& event : events) {
    progress_.take(event.record, event.event);
  }
  return events;
}

std::string SupervisedRun::send_notice() const {
  std::string told;
  if (code_) {
    return told;
  }
  const std::vector<ProcessInfo> all = descendants_of(::getpid());
  for (const NoticeTarget& target : notice_targets(pid_, all, progress_, core::host_name())) {
    if (send(target.pid, target.signal)) {
      const auto process =
          std::find_if(all.begin(), all.end(), [&](const ProcessInfo& each) { return each.pid == target.pid; });
      told += fmt::format("{}{} to {} {}", told.empty() ? "" : ", ", termination::signal_name(target.signal),
                          process == all.end() ? "process" : process->program, target.pid);
    }
  }
  return told;
}

std::string SupervisedRun::kill_hung_launchers() {
  std::string killed;
  for (const ProcessInfo& process : launchers_.find(descendants_of(::getpid()), Clock::now())) {
    if (send(process.pid, SIGKILL)) {
      killed += fmt::format("{}{} {}", killed.empty() ? "" : ", ", process.program, process.pid);
    }
  }
  return killed;
}

void SupervisedRun::terminate() const {
  if (!code_) {
    send(pid_, SIGTERM);
  }
}

void SupervisedRun::kill_all() const {
  for (const ProcessInfo& process : descendants_of(::getpid())) {
    send(process.pid, SIGKILL);
  }
}

std::optional<std::string> message_of_error_report(std::istream& report, double not_before_s) {
  const auto content = nlohmann::json::parse(report, nullptr, false);
  if (!content.is_object()) {
    return std::nullopt;
  }
  const auto time = content.find("time_s");
  const auto message = content.find("message");
  if (time == content.end() || !time->is_number() || time->get<double>() < not_before_s || message == content.end() ||
      !message->is_string()) {
    return std::nullopt;
  }
  return message->get<std::string>();
}

RunProgress SupervisedRun::progress_in_event_logs(const std::optional<std::filesystem::path>& directory) const {
  std::vector<std::filesystem::path> directories = progress_.directories();
  if (directory && std::find(directories.begin(), directories.end(), *directory) == directories.end()) {
    directories.push_back(*directory);
  }
  const std::string start = core::event_time(started_wall_clock_);
  RunProgress progress;
  for (const auto& each : directories) {
    for (const nlohmann::json& event : core::read_events(each / core::kEventLogName, core::kLongestLog)) {
      const auto time = event.find("time");
      if (time != event.end() && time->is_string() && time->get_ref<const std::string&>() >= start) {
        progress.take(each.string(), event);
      }
    }
  }
  return progress;
}

std::optional<std::string> SupervisedRun::error_report() const {
  const std::chrono::duration<double> start = started_wall_clock_.time_since_epoch();
  for (const auto& directory : progress_.directories()) {
    std::ifstream file(directory / "error.json");
    if (auto message = message_of_error_report(file, start.count())) {
      return message;
    }
  }
  return std::nullopt;
}

}  // namespace reprieve::supervisor
