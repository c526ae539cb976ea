// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How long the tests of this folder wait for processes, how far a run has come, and what undisturbed runs come to.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

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

/// What @p compute gives, once for every build of the program and every @p options: other tests, which are processes of
/// their own, find it in a file.
inline std::string remembered(const std::string& name, const std::string& options,
                              const std::function<std::string()>& compute) {
  const std::filesystem::path file = program(name);
  std::ostringstream build;
  build << name << ' ' << options << ' ' << std::filesystem::file_size(file) << ' '
        << std::filesystem::last_write_time(file).time_since_epoch().count();
  const std::filesystem::path cache = REPRIEVE_CACHE_DIR;
  const std::filesystem::path known = cache / std::to_string(std::hash<std::string>{}(build.str()));
  std::string result = read_text(known);
  if (result.empty()) {
    result = compute();
    // Tests that run at the same time write the same; the rename keeps them from reading half of it.
    const TemporaryDirectory temporary(cache);
    std::ofstream(temporary / "result") << result;
    std::filesystem::rename(temporary / "result", known);
  }
  return result;
}

}  // namespace reprieve::test
