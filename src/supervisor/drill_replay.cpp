// SPDX-License-Identifier: BSD-3-Clause
// The replay of a drill: the steps after the checkpoint once more, in a run from the beginning and in a resumed one.

#include <fmt/format.h>

#include <algorithm>

#include "supervisor/drill.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;

/// The last checkpoint of a step; empty if there is none.
fs::path checkpoint_of(const ObservedStart& start, std::uint64_t step) {
  const auto found = std::find_if(start.saves.rbegin(), start.saves.rend(),
                                  [&](const ObservedSave& save) { return save.step == step; });
  return found == start.saves.rend() ? fs::path() : found->file;
}

}  // namespace

/// The resumed run makes no sense if the program goes another way at each start.
void Drill::replay() {
  ReplayFacts& replay = facts_.replay.emplace();
  replay.from_step = *facts_.notice->saved_step;
  replay.steps = settings_.replay_steps;
  replay.ranks = settings_.replay_ranks;
  run_undisturbed();
  const fs::path same_step = checkpoint_of(replay.undisturbed, replay.from_step);
  if (facts_.interrupted || !replay.undisturbed.stopped_at() || same_step.empty()) {
    return;
  }
  replay.start = settings_.compare(saved_copy_, same_step);
  if (replay.start->equal()) {
    run_resumed();
  }
}

/// From the beginning, in a directory that no start has used.
void Drill::run_undisturbed() {
  ReplayFacts& replay = *facts_.replay;
  const std::string directory = scratch_name_ + "-undisturbed";
  scratch_.insert(facts_.first.directory / directory);  // also if the run is ended before it tells that it is there
  say(fmt::format("replay: an undisturbed run, from the beginning to step {}", replay.to_step()));
  start(replay.undisturbed, {.subdirectory = directory, .save_at = replay.from_step, .leave_at = replay.to_step()},
        settings_.command);
  await_end();
  end_start();
}

/// From the checkpoint that the second start saved before its first step, which is equal to that of the first.
void Drill::run_resumed() {
  ReplayFacts& replay = *facts_.replay;
  say(fmt::format("replay: a resumed run, from step {} to step {}", replay.from_step, replay.to_step()));
  const ObservedStart& resumed = replay.resumed.emplace();
  start(*replay.resumed, {.subdirectory = scratch_name_, .leave_at = replay.to_step()},
        settings_.replay_ranks > 0 ? settings_.replay_command : settings_.command);
  await_end();
  end_start();
  const auto step = resumed.stopped_at();
  if (facts_.interrupted || !step || step != replay.undisturbed.stopped_at()) {
    return;
  }
  const fs::path of_undisturbed = checkpoint_of(replay.undisturbed, *step);
  const fs::path of_resumed = checkpoint_of(resumed, *step);
  if (!of_undisturbed.empty() && !of_resumed.empty()) {
    replay.end = settings_.compare(of_undisturbed, of_resumed);
  }
}

}  // namespace reprieve::supervisor
