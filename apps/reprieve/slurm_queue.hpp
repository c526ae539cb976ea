// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The user's jobs as Slurm lists them. Pure.

#include <string>
#include <vector>

namespace reprieve::tool {

/// A job, or a task of a job array, or the tasks of one that have not begun.
struct QueuedJob {
  std::string id;  ///< "17", "15_3", "15_[4-9]"
  std::string name;
  std::string state;      ///< "PENDING", "RUNNING", "COMPLETING", ...
  std::string time_left;  ///< as Slurm writes it: "1-02:03:04"
  std::string where;      ///< its nodes, or in parentheses why it waits
};

/// What squeue has to be asked for.
[[nodiscard]] std::vector<std::string> squeue_command();

/// Reads its answer. Lines of another form are left out.
[[nodiscard]] std::vector<QueuedJob> parse_squeue(const std::string& text);

}  // namespace reprieve::tool
