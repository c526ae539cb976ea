// SPDX-License-Identifier: BSD-3-Clause
#include "termination/slurm_job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT: kill is POSIX, not in <csignal>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <map>
#include <sstream>
#include <string_view>

#include "core/directory.hpp"
#include "core/values.hpp"

namespace reprieve::termination {

namespace {

using std::chrono::system_clock;

/// "2026-03-01T12:00:00" in local time; nothing for "Unknown", "None" and the like.
std::optional<system_clock::time_point> parse_time(const std::string& text) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr || *rest != '\0') {
    return std::nullopt;
  }
  parts.tm_isdst = -1;
  const std::time_t time = std::mktime(&parts);
  return time == -1 ? std::nullopt : std::optional(core::wall_clock_time(time));
}

/// The fields of the lines that begin with one of the keys wanted. Other lines hold text of the user's own, such as
/// names and comments, which may look like fields.
std::map<std::string, std::string> fields_of(const std::string& text) {
  std::map<std::string, std::string> fields;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(" \t");
    const std::string_view content = begin == std::string::npos ? "" : std::string_view(line).substr(begin);
    const bool wanted = content.starts_with("JobState=") || content.starts_with("Requeue=") ||
                        content.starts_with("StartTime=") || content.starts_with("PreemptEligibleTime=");
    std::istringstream words{wanted ? std::string(content) : std::string()};
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals != std::string::npos) {
        fields[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
  }
  return fields;
}

}  // namespace

std::optional<std::string> slurm_job_id(
    const std::function<std::optional<std::string>(const std::string&)>& environment) {
  const auto array = environment("SLURM_ARRAY_JOB_ID"), task = environment("SLURM_ARRAY_TASK_ID");
  return array && task ? *array + '_' + *task : environment("SLURM_JOB_ID");
}

std::optional<SlurmJobInfo> parse_slurm_job(const std::string& text) {
  auto fields = fields_of(text);
  if (!fields.contains("JobState")) {
    return std::nullopt;
  }
  return SlurmJobInfo{fields["JobState"], fields["Requeue"] == "1", parse_time(fields["PreemptTime"]).has_value(),
                      parse_time(fields["StartTime"]), parse_time(fields["EndTime"])};
}

std::chrono::seconds default_lead(std::chrono::seconds whole_time) {
  return std::clamp(whole_time / 4, std::chrono::seconds(0), std::chrono::seconds(120));
}

std::optional<system_clock::time_point> notice_time(const SlurmJobInfo& job, std::optional<std::chrono::seconds> lead) {
  if (job.preempted) {
    return system_clock::time_point::min();
  }
  if (!job.end) {
    return std::nullopt;
  }
  if (!job.start) {
    return core::later(*job.end, -lead.value_or(std::chrono::seconds(0)));
  }
  const auto whole_time = core::between<std::chrono::seconds>(*job.start, *job.end);
  return core::later(*job.end, -std::min(lead.value_or(default_lead(whole_time)), whole_time / 2));
}

std::map<std::string, std::optional<std::string>> slurm_environment() {
  return {{"SLURM_TIME_FORMAT", "standard"}, {"LC_ALL", "C"}, {"SCONTROL_ALL", std::nullopt}};
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongest = std::size_t{64} * 1024;
/// How often a stop is looked for.
constexpr int kPollMs = 50;

/// Starts the program with @p output as its standard output and signals as at the start of a shell; -1 if it cannot be
/// started. Not fork: that would copy the page tables of a large process, and network drivers of MPI forbid it.
pid_t start(std::vector<std::string> arguments, std::vector<std::string> environment, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  if (posix_spawn_file_actions_init(&actions) != 0) {
    return -1;
  }
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return -1;
  }
  pid_t pid = -1;
  const bool good = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
                    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) == 0 &&
                    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                    posix_spawnattr_setsigmask(&attributes, &none) == 0 &&
                    posix_spawnattr_setsigdefault(&attributes, &all) == 0 &&
                    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) == 0 &&
                    posix_spawnp(&pid, arguments.front().c_str(), &actions, &attributes,
                                 core::pointers_to(arguments).data(), core::pointers_to(environment).data()) == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return good ? pid : -1;
}

/// Reads to the end of the output. False if that does not come in time, or too much before it.
bool read_all(int pipe, std::string& output, Clock::time_point end, const std::stop_token& stop) {
  std::array<char, 4096> buffer{};
  while (Clock::now() < end && !stop.stop_requested() && output.size() <= kLongest) {
    pollfd descriptor{pipe, POLLIN, 0};
    if (::poll(&descriptor, 1, kPollMs) <= 0) {
      continue;
    }
    const ssize_t got = ::read(pipe, buffer.data(), buffer.size());
    if (got == 0) {
      return true;
    }
    if (got > 0) {
      output.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (errno != EINTR && errno != EAGAIN) {
      return false;
    }
  }
  return false;
}

/// Reaps the child; true if it ended with 0 by itself before @p end. Kills it otherwise.
bool ended_well(pid_t pid, bool wait_for_it, Clock::time_point end, const std::stop_token& stop) {
  int status = 0;
  while (wait_for_it && Clock::now() < end && !stop.stop_requested()) {
    const pid_t reaped = ::waitpid(pid, &status, WNOHANG);
    if (reaped == pid) {
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    if (reaped < 0 && errno != EINTR) {
      return errno == ECHILD;  // the application ignores SIGCHLD, or has reaped it: the output decides
    }
    ::poll(nullptr, 0, 1);
  }
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return false;
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& arguments,
                                     const core::EnvironmentChanges& environment_changes,
                                     std::chrono::milliseconds limit, const std::stop_token& stop) {
  const auto end = Clock::now() + limit;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return std::nullopt;
  }
  const core::Descriptor read_end(ends[0]);
  core::Descriptor write_end(ends[1]);
  const pid_t pid = start(arguments, core::merged_environment(environment_changes), write_end.get());
  write_end = core::Descriptor();
  std::string output;
  const bool complete = pid > 0 && read_all(read_end.get(), output, end, stop);
  return pid > 0 && ended_well(pid, complete, end, stop) ? std::optional(std::move(output)) : std::nullopt;
}

}  // namespace reprieve::termination
