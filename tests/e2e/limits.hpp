// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How long the tests of this folder wait for processes, and how far a run has come.

#include <chrono>
#include <cstddef>
#include <filesystem>

#include "support/process.hpp"
#include "support/run_directory.hpp"

namespace reprieve::test {

/// Longer than anything takes on an overloaded machine: what is not over by then hangs.
inline constexpr std::chrono::seconds kHang{120};
/// An mpirun whose ranks have ended needs some 3 s at most.
inline constexpr std::chrono::seconds kHungLauncher{20};

/// How many starts of a run have come to their loop, as the event log in this directory has it.
inline std::size_t times_ready(const std::filesystem::path& checkpoints) {
  return events_of(read_text(checkpoints / "events.jsonl"), "ready").size();
}

}  // namespace reprieve::test
