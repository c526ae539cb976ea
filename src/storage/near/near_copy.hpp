// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which copy of the state a part file belongs to.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "storage/format/file_metadata.hpp"

namespace reprieve::storage {

/// A checkpoint that lies as one part for each rank in the memory of the nodes. Parts belong together if they are equal
/// in all of this.
struct NearCopy {
  SaveIdentity save;                  ///< orders copies and checkpoints of a directory
  std::uint64_t directory_inode = 0;  ///< of the checkpoint directory: a copy of it has the same id
  std::string prefix;
  std::uint64_t number = 0;  ///< of the checkpoint that it would be
  std::optional<std::uint64_t> run_calls;
  std::int64_t time_us = 0;  ///< wall clock, microseconds since 1970
  int ranks = 0;
  std::uint64_t layout_digest = 0;  ///< of the structure that the file would have
  /// The newest checkpoint that was in the directory: if it is gone, the user has gone back on purpose.
  std::uint64_t known_run = 0;
  std::uint64_t known_save = 0;  ///< 0: there was none

  friend bool operator==(const NearCopy&, const NearCopy&) = default;
};

/// One of its parts.
struct PartName {
  NearCopy copy;
  int rank = 0;

  friend bool operator==(const PartName&, const PartName&) = default;
};

[[nodiscard]] nlohmann::json to_json(const PartName& part);
/// @throws CorruptError, nlohmann::json::exception
[[nodiscard]] PartName part_from_json(const nlohmann::json& from);

}  // namespace reprieve::storage
