// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/run_record_reader.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "core/run_record.hpp"

namespace reprieve::supervisor {

std::vector<RecordedEvent> RunRecordReader::read_new() {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  // A supervisor below this one has the records of its runs in directories of its own, further down.
  for (std::filesystem::recursive_directory_iterator entry(directory_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == core::kRunRecordSuffix) {
      files.push_back(entry->path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<RecordedEvent> events;
  for (const auto& file : files) {
    read_file(file, events);
  }
  return events;
}

void RunRecordReader::read_file(const std::filesystem::path& file, std::vector<RecordedEvent>& events) {
  const std::string record = file.lexically_relative(directory_).string();
  std::streamoff& position = positions_[record];
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(position);
  for (std::string line; std::getline(stream, line) && !stream.eof();) {
    position += static_cast<std::streamoff>(line.size()) + 1;
    auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.contains("event")) {
      events.push_back({record, std::move(event)});
    }
  }
}

}  // namespace reprieve::supervisor
