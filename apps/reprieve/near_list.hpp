// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The near copies of which this node has parts.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "storage/near/near_copy.hpp"

namespace reprieve::tool {

/// What this node has of one copy.
struct NearListEntry {
  std::optional<storage::NearCopy> copy;  ///< nothing: files that are no complete part
  std::filesystem::path folder;
  std::size_t parts = 0;
  std::uint64_t size_bytes = 0;
  bool is_of_directory = false;  ///< of the one that was asked for
  bool in_use = false;           ///< by a process that lives
};

/// Those of this user in @p near; those of @p directory first. @throws StorageError
[[nodiscard]] std::vector<NearListEntry> list_near(const std::filesystem::path& near,
                                                   const std::filesystem::path& directory);

void print_text(std::ostream& out, const std::vector<NearListEntry>& entries, const std::filesystem::path& near);
[[nodiscard]] nlohmann::json to_json(const std::vector<NearListEntry>& entries);

}  // namespace reprieve::tool
