// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The near copies of which this node has parts.

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "storage/near/near_copy.hpp"

namespace reprieve::tool {

/// What this node has of one copy.
struct NearListEntry {
  std::optional<storage::NearCopy> copy;  ///< nothing: files that are no complete part
  std::filesystem::path folder;
  std::size_t parts = 0;          ///< of so many ranks, wherever they ran
  std::size_t partner_parts = 0;  ///< parts that are kept for ranks of other hosts
  std::uint64_t size_bytes = 0;
  bool is_of_directory = false;  ///< of the one that was asked for
  bool in_use = false;           ///< by a process that lives
  bool is_brought = false;       ///< it was brought into the checkpoint directory

  [[nodiscard]] bool is_complete() const { return copy && parts == static_cast<std::size_t>(copy->ranks); }
  [[nodiscard]] std::uint64_t step() const { return copy->run_calls.value_or(copy->number); }
  [[nodiscard]] std::chrono::system_clock::time_point time() const {
    return std::chrono::system_clock::time_point(std::chrono::microseconds(copy->time_us));
  }
};

/// Those of this user in @p near (empty: nowhere), and those that nodes have brought into @p directory; those of @p
/// directory first.
/// @throws StorageError
[[nodiscard]] std::vector<NearListEntry> list_near(const std::filesystem::path& near,
                                                   const std::filesystem::path& directory);

/// Where the last run in @p directory took near copies, by its log. Nothing if it took none, or if that directory is
/// not on this node.
[[nodiscard]] std::optional<std::filesystem::path> near_directory_of(const std::filesystem::path& directory);

struct NearListing {
  std::filesystem::path place;  ///< empty: only what was brought was looked for
  std::vector<NearListEntry> entries;
};

void print_text(std::ostream& out, const NearListing& listing);
[[nodiscard]] nlohmann::json to_json(const std::vector<NearListEntry>& entries);

}  // namespace reprieve::tool
