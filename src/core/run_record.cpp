// SPDX-License-Identifier: BSD-3-Clause
#include "core/run_record.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/log.hpp"

namespace reprieve::core {

EventLog open_run_record(const std::string& host) {
  const char* directory = std::getenv(kRunDirectoryVariable);
  if (directory == nullptr || *directory == '\0') {
    return {};
  }
  return EventLog(std::filesystem::path(directory) / fmt::format("{}.{}{}", host, ::getpid(), kRunRecordSuffix));
}

}  // namespace reprieve::core
