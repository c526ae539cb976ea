// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The checkpoints in a directory, for those who only look: without the lock, and without ranks.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprieve::manager {

/// A file with the name of a checkpoint: `<prefix>-<number>.h5`.
struct CheckpointFile {
  std::filesystem::path path;
  std::string prefix;
  std::uint64_t number = 0;
  bool is_foreign =
      false;  ///< saved in another directory: a restore takes it only if it is named, or there is no other
};

/// The committed checkpoints in a directory, whatever their prefix and whether sound or not, sorted by prefix, then as
/// a restore sees them, with the newest at the end (checkpoint_order.hpp). Cost: one small read per file.
/// @throws StorageError if the directory cannot be read
std::vector<CheckpointFile> checkpoint_files(const std::filesystem::path& directory);

/// Whether a file has the name of a checkpoint, or of one that was set aside, of any prefix.
[[nodiscard]] bool is_checkpoint_name(const std::filesystem::path& path);
[[nodiscard]] bool is_set_aside_name(const std::filesystem::path& path);

/// The regular files in a directory, in any order. @throws StorageError
std::vector<std::filesystem::path> regular_files(const std::filesystem::path& directory);

}  // namespace reprieve::manager
