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

}  // namespace

std::set<fs::path> run_directories(const fs::path& top) {
  std::set<fs::path> found;
  const auto look = [&](const fs::path& directory) {
    std::error_code ignored;
    if (fs::is_regular_file(directory / manager::kEventLogName, ignored)) {
      found.insert(directory);
    }
  };
  look(top);
  std::error_code error;
  fs::recursive_directory_iterator entry(top, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored) || entry->is_symlink(ignored)) {
      continue;
    }
    if (entry.depth() >= kDepth || entry->path().filename().string().starts_with('.')) {
      entry.disable_recursion_pending();
    } else {
      look(entry->path());
    }
  }
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
