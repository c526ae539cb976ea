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
};

/// The committed checkpoints in a directory, whatever their prefix and whether sound or not, sorted by prefix and
/// number.
/// @throws StorageError if the directory cannot be read
std::vector<CheckpointFile> checkpoint_files(const std::filesystem::path& directory);

/// The regular files in a directory, in any order. @throws StorageError
std::vector<std::filesystem::path> regular_files(const std::filesystem::path& directory);

}  // namespace reprieve::manager
