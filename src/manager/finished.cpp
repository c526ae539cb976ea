// The mark of a run that came to its end: so that a start after it does no work twice.

#include <spdlog/fmt/fmt.h>

#include "core/log.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/manager_impl.hpp"

namespace reprieve {

namespace {

/// The counters of the newest checkpoint; zeros if there is none.
manager::FinishedRun newest_of(manager::CheckpointDirectory& directory, const std::string& id,
                               std::uint64_t run_calls) {
  const std::vector<manager::OrderEntry> entries = directory.in_order(id);
  return entries.empty() ? manager::FinishedRun{run_calls}
                         : manager::FinishedRun{run_calls, entries.back().run, entries.back().save};
}

}  // namespace

void CheckpointManager::Impl::mark_finished(std::uint64_t run_calls) {
  if (!comm.is_chief()) {
    return;
  }
  try {
    lock->check_held();
    identity->set_finished(newest_of(directory, identity->directory_id(), run_calls));
  } catch (const std::exception& error) {
    core::log::warning("the directory does not remember that the run is finished: {}", error.what());
  }
}

std::optional<std::uint64_t> CheckpointManager::Impl::finished_at() {
  const char* what = "looking whether the run is finished";
  const auto look = [&] {
    std::int64_t chiefs = -1;
    if (comm.is_chief()) {
      const auto mark = identity->finished();
      // Since then something was saved, or somebody removed the newest to go back: then it is not finished.
      if (mark && newest_of(directory, identity->directory_id(), mark->run_calls) == *mark) {
        chiefs = static_cast<std::int64_t>(mark->run_calls);
      }
    }
    return comm.max(chiefs, what);
  };
  const std::int64_t finished = comm.together(look, what);
  return finished < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(finished));
}

}  // namespace reprieve
