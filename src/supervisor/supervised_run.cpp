#include "supervisor/supervised_run.hpp"

#include <signal.h>  // NOLINT: kill is POSIX, not in <csignal>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "termination/signal_flag.hpp"

namespace reprieve::supervisor {

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

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
  for (const NoticeTarget& target : notice_targets(pid_, all, progress_, host_name())) {
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

std::optional<std::string> SupervisedRun::error_report() const {
  for (const auto& directory : progress_.directories()) {
    std::ifstream file(directory / "error.json");
    const auto report = nlohmann::json::parse(file, nullptr, false);
    const std::chrono::duration<double> start = started_wall_clock_.time_since_epoch();
    if (report.is_object() && report.contains("time_s") && report["time_s"].is_number() &&
        report["time_s"].get<double>() >= start.count() && report.contains("message")) {
      return report["message"].is_string() ? std::optional(report["message"].get<std::string>()) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace reprieve::supervisor
