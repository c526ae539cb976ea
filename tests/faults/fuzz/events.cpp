// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: an event log, read as a whole and from the middle of a line. What was read is copied and printed, as its
// readers do.

#include "core/events.hpp"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "storage/bytes/posix_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto file = reprieve::storage::PosixFile::create_in_memory();
  file.set_size(0);
  file.write_all(std::as_bytes(std::span(data, size)), 0);
  for (const std::size_t tail : {size + 1, size / 2}) {
    const auto events = reprieve::core::read_events(file.path(), tail);
    for (const auto& logged : std::vector(events)) {
      if (to_json(logged).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).empty()) {
        std::abort();
      }
    }
  }
  return 0;
}
