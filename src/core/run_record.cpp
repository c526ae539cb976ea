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

struct Places {
  std::mutex mutex;
  std::set<int> taken;
};

/// The lowest one that no open record of this process has.
std::shared_ptr<const int> take_place() {
  static const auto places = std::make_shared<Places>();
  const std::lock_guard lock(places->mutex);
  int place = 0;
  while (places->taken.contains(place)) {
    ++place;
  }
  places->taken.insert(place);
  // A record may live on after the statics.
  return {new int(place), [places = places](const int* freed) {
            const std::lock_guard again(places->mutex);
            places->taken.erase(*freed);
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
