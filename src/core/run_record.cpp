// SPDX-License-Identifier: BSD-3-Clause
#include "core/run_record.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>

#include "core/log.hpp"

namespace reprieve::core {

namespace {

/// The lowest one that no open record of this process has.
std::shared_ptr<const int> take_place() {
  static std::mutex mutex;
  static std::set<int> taken;
  const std::lock_guard lock(mutex);
  int place = 0;
  while (taken.contains(place)) {
    ++place;
  }
  taken.insert(place);
  return {new int(place), [](const int* freed) {
            const std::lock_guard again(mutex);
            taken.erase(*freed);
            delete freed;  // NOLINT(cppcoreguidelines-owning-memory)
          }};
}

}  // namespace

RunRecord open_run_record(const std::string& host) {
  const char* directory = std::getenv(kRunDirectoryVariable);
  if (directory == nullptr || *directory == '\0') {
    return {};
  }
  auto place = take_place();
  const std::string number = *place == 0 ? "" : fmt::format(".{}", *place);
  EventLog log(std::filesystem::path(directory) / fmt::format("{}.{}{}{}", host, ::getpid(), number, kRunRecordSuffix));
  return {std::move(log), std::move(place)};
}

}  // namespace reprieve::core
