// SPDX-License-Identifier: BSD-3-Clause
#include "manager/near_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "core/log.hpp"

namespace reprieve::manager {

namespace {

/// Of this directory and prefix, and newer than all checkpoints.
bool may_be_wanted(const storage::NearCopy& copy, const NearTarget& target) {
  return copy.save.directory_id == target.directory_id && copy.directory_inode == target.inode &&
         copy.prefix == target.prefix && is_newer(copy.save, target.newest_checkpoint);
}

bool has_gone_back(const storage::NearCopy& copy, const NearTarget& target) {
  return is_newer({"", copy.known_run, copy.known_save}, target.newest_checkpoint) && !target.has_unreadable;
}

}  // namespace

bool ListedCopy::is_complete() const { return missing().empty(); }

std::vector<int> ListedCopy::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].empty()) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

std::string ListedCopy::incomplete_text() const {
  constexpr std::size_t kMostNamed = 8;
  const std::vector<int> ranks = missing();
  const auto last = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kMostNamed));
  const std::string others =
      ranks.size() > kMostNamed ? fmt::format(" and {} others", ranks.size() - kMostNamed) : std::string();
  return fmt::format("the near copy at step {} of {} ranks is not complete: parts of ranks {}{} were not found here",
                     copy.run_calls.value_or(copy.number), copy.ranks, fmt::join(ranks.begin(), last, ", "), others);
}

bool is_newer(const storage::SaveIdentity& a, const storage::SaveIdentity& b) {
  return std::tie(a.run, a.save) > std::tie(b.run, b.save);
}

std::vector<ListedCopy> wanted_copies(const std::vector<ListedPart>& parts, const NearTarget& target) {
  std::map<std::string, ListedCopy> copies;  // by all that the parts of one copy have in common
  for (const ListedPart& part : parts) {
    if (!may_be_wanted(part.name.copy, target)) {
      continue;
    }
    ListedCopy& copy = copies[storage::to_json({part.name.copy, 0}).dump()];
    copy.copy = part.name.copy;
    copy.parts.resize(static_cast<std::size_t>(part.name.copy.ranks));
    copy.parts.at(static_cast<std::size_t>(part.name.rank)).push_back(part);
  }
  std::vector<ListedCopy> wanted;
  for (auto& [name, copy] : copies) {
    if (has_gone_back(copy.copy, target)) {
      core::log::warning(
          "a near copy at step {} is passed over, since a checkpoint that was there when it was taken is not there any "
          "more",
          copy.copy.run_calls.value_or(copy.copy.number));
    } else {
      wanted.push_back(std::move(copy));
    }
  }
  std::ranges::sort(wanted, [](const auto& a, const auto& b) { return is_newer(a.copy.save, b.copy.save); });
  return wanted;
}

}  // namespace reprieve::manager
