// SPDX-License-Identifier: BSD-3-Clause
#include "manager/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/log.hpp"
#include "manager/checkpoint_order.hpp"
#include "reprieve/error.hpp"

namespace reprieve::manager {

namespace {

/// Says what the order passes over, since the file names may suggest something else.
void tell_passed_over(CheckpointDirectory& directory, const std::vector<OrderEntry>& oldest_first) {
  const OrderEntry& newest = oldest_first.back();
  if (newest.origin != Origin::own) {
    return;
  }
  const auto newest_info = directory.info(newest.number);
  for (const OrderEntry& entry : oldest_first) {
    const std::string path = directory.file(entry.number).string();
    if (entry.origin == Origin::foreign) {
      core::log::warning(
          "{} was saved in another directory, so it is passed over; to go on from it, restore it by its name, or move "
          "the "
          "checkpoints of this directory away",
          path);
      continue;
    }
    const auto info = entry.origin == Origin::uncounted ? directory.info(entry.number) : std::nullopt;
    if (info && newest_info && info->time > newest_info->time) {
      core::log::warning(
          "{} was saved by an older version of this library after {}, so it is not known to be newer, and is passed "
          "over; to go on from it, restore it by its name, or move the others away",
          path, newest_info->path.filename().string());
    }
  }
}

/// The newest first.
std::vector<std::uint64_t> numbers_of(const std::vector<OrderEntry>& oldest_first) {
  std::vector<std::uint64_t> numbers;
  std::transform(oldest_first.rbegin(), oldest_first.rend(), std::back_inserter(numbers),
                 [](const OrderEntry& entry) { return entry.number; });
  return numbers;
}

}  // namespace

std::vector<std::uint64_t> find_candidates(CheckpointDirectory& directory, const std::string& directory_id) {
  std::vector<OrderEntry> entries = directory.in_order(directory_id);
  if (entries.empty()) {
    return {};
  }
  tell_passed_over(directory, entries);
  drop_foreign(entries);
  std::set<std::string> directories;
  for (const OrderEntry& entry : entries) {
    if (entry.origin == Origin::foreign) {
      directories.insert(entry.directory_id);
    }
  }
  if (directories.size() > 1) {
    throw UsageError(
        fmt::format("{} holds checkpoints of {} other directories and none of its own: none of them is the newest; "
                    "leave those of one there, or restore one by its name",
                    directory.path().string(), directories.size()));
  }
  if (!directories.empty()) {
    core::log::warning("{} holds checkpoints that were saved in another directory, and none of its own: they are taken",
                       directory.path().string());
  }
  return numbers_of(entries);
}

std::vector<std::uint64_t> find_own(CheckpointDirectory& directory, const std::string& directory_id) {
  std::vector<OrderEntry> entries = directory.in_order(directory_id);
  std::erase_if(entries, [](const OrderEntry& entry) { return entry.origin == Origin::foreign; });
  return numbers_of(entries);
}

}  // namespace reprieve::manager
