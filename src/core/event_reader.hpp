#pragma once

/// @file
/// Reading the event log that EventLog writes.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace reprieve::core {

/// The events of a log, oldest first. Lines that are not JSON objects (cut by a crash, or foreign) are passed over, and
/// so is what lies more than @p tail_bytes before the end of the file. Empty if the file does not exist or cannot be
/// read.
std::vector<nlohmann::json> read_events(const std::filesystem::path& file,
                                        std::size_t tail_bytes = std::size_t{1} << 20);

}  // namespace reprieve::core
