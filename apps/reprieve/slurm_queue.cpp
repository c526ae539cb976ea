// SPDX-License-Identifier: BSD-3-Clause
#include "slurm_queue.hpp"

#include <sstream>

namespace reprieve::tool {

namespace {

/// The name comes last: it may hold anything.
constexpr const char* kFormat = "%i|%T|%L|%R|%j";

}  // namespace

std::vector<std::string> squeue_command() { return {"squeue", "--me", "--noheader", "-o", kFormat}; }

std::vector<QueuedJob> parse_squeue(const std::string& text) {
  std::vector<QueuedJob> jobs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    QueuedJob job;
    if (std::getline(fields, job.id, '|') && std::getline(fields, job.state, '|') &&
        std::getline(fields, job.time_left, '|') && std::getline(fields, job.where, '|') &&
        std::getline(fields, job.name)) {
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

}  // namespace reprieve::tool
