// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reading the records of a run while they are written.

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace reprieve::supervisor {

/// One event, and the name of the record that it is from.
struct RecordedEvent {
  std::string record;
  nlohmann::json event;
};

/// Follows all records in a run directory.
class RunRecordReader {
 public:
  explicit RunRecordReader(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// What was written since the last call, each record in its order. Lines that are not events, or not complete yet,
  /// are passed over. A directory that cannot be read has no events.
  std::vector<RecordedEvent> read_new();

 private:
  void read_file(const std::filesystem::path& file, std::vector<RecordedEvent>& events);

  std::filesystem::path directory_;
  std::map<std::string, std::streamoff> positions_;  ///< behind the last complete line
};

}  // namespace reprieve::supervisor
