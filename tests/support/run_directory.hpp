// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a run leaves in its checkpoint directory: events and checkpoints.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace reprieve::test {

/// The events in the text of a log, or those of one name. Other lines may stand between them, and the last one may be
/// half of one.
inline std::vector<nlohmann::json> events_of(const std::string& log, const std::string& name = "") {
  std::vector<nlohmann::json> found;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::erase(line, '\0');  // mpirun of Open MPI 5 ends its text with one
    auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.contains("event") && (name.empty() || event["event"] == name)) {
      found.push_back(std::move(event));
    }
  }
  return found;
}

/// The events in the log of a run.
inline std::vector<nlohmann::json> events_of_run(const std::filesystem::path& directory, const std::string& name = "") {
  std::ifstream log(directory / "events.jsonl");
  return events_of({std::istreambuf_iterator<char>(log), {}}, name);
}

/// The files of the committed checkpoints, by number.
inline std::map<std::uint64_t, std::filesystem::path> checkpoints_in(const std::filesystem::path& directory) {
  std::map<std::uint64_t, std::filesystem::path> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("ckpt-") && name.ends_with(".h5")) {
      found[std::stoull(name.substr(5))] = entry.path();
    }
  }
  return found;
}

/// The number of the newest one; 0 if there is none.
inline std::uint64_t newest_checkpoint_in(const std::filesystem::path& directory) {
  const auto all = checkpoints_in(directory);
  return all.empty() ? 0 : all.rbegin()->first;
}

}  // namespace reprieve::test
