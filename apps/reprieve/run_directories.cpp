// SPDX-License-Identifier: BSD-3-Clause
#include "run_directories.hpp"

#include <nlohmann/json.hpp>

#include "core/environment.hpp"
#include "core/worker_record.hpp"
#include "manager/checkpoint_directory.hpp"
#include "supervisor/run_follower.hpp"

namespace reprieve::tool {

namespace fs = std::filesystem;

namespace {

/// Deeper than anybody lays out runs; keeps a wrong start (`/`) from taking for ever.
constexpr int kDepth = 6;

/// A run lists its ranks when it has restored. Before that its chief alone is known, and seen on its own node only.
bool chief_lives(const RunStatus& status) {
  return status.host == core::host_name() && core::start_of_process(status.pid) != 0;
}

/// A directory that is removed meanwhile, or that cannot be read, ends no other one's list.
void look_below(const fs::path& directory, int depth, std::set<fs::path>& found) {
  std::error_code error;
  if (fs::is_regular_file(directory / manager::kEventLogName, error)) {
    found.insert(directory);
  }
  if (depth == 0) {
    return;
  }
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored) &&
        !entry->path().filename().string().starts_with('.')) {
      look_below(entry->path(), depth - 1, found);
    }
  }
}

}  // namespace

std::set<fs::path> run_directories(const fs::path& top) {
  std::set<fs::path> found;
  look_below(top, kDepth, found);
  return found;
}

std::optional<RunStatus> look_at(const fs::path& directory, const std::vector<nlohmann::json>& events) {
  supervisor::RunFollower follower(directory);
  auto status = status_of(directory, events, !follower.living().empty());
  if (status && status->state == RunState::gone && chief_lives(*status)) {
    // With a handler the list of its ranks says more: another process may have got the number of a chief that has gone.
    auto alone = status_of(directory, events, true);
    return alone->has_handler ? status : alone;
  }
  return status;
}

}  // namespace reprieve::tool
