// SPDX-License-Identifier: BSD-3-Clause
#include "manager/finished.hpp"

namespace reprieve::manager {

namespace {

/// The counters of the newest checkpoint; zeros if there is none.
FinishedRun newest_of(CheckpointDirectory& directory, const std::string& id, std::uint64_t run_calls) {
  const std::vector<OrderEntry> entries = directory.in_order(id);
  return entries.empty() ? FinishedRun{run_calls} : FinishedRun{run_calls, entries.back().run, entries.back().save};
}

}  // namespace

void mark_finished(CheckpointDirectory& directory, RunIdentity& identity, std::uint64_t run_calls) {
  identity.set_finished(newest_of(directory, identity.directory_id(), run_calls));
}

std::optional<std::uint64_t> finished_at(CheckpointDirectory& directory, const RunIdentity& identity) {
  const auto mark = identity.finished();
  // Since then something was saved, or somebody removed the newest to go back: then it is not finished.
  const bool holds = mark && newest_of(directory, identity.directory_id(), mark->run_calls) == *mark;
  return holds ? std::optional(mark->run_calls) : std::nullopt;
}

}  // namespace reprieve::manager
