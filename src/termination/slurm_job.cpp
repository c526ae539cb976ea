// SPDX-License-Identifier: BSD-3-Clause
#include "termination/slurm_job.hpp"

#include <algorithm>
#include <ctime>
#include <map>
#include <sstream>
#include <string_view>

#include "core/saturating_time.hpp"

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

}  // namespace reprieve::termination
