// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The files that the subcommands are given.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manager/checkpoint_list.hpp"
#include "manager/directory_lock.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::tool {

/// Throws UsageError, with what to do, unless @p file is a file.
void require_file(const std::filesystem::path& file);

/// Throws UsageError, with what to do, unless @p directory is a directory.
void require_directory(const std::filesystem::path& directory);

using manager::checkpoint_files;
using manager::CheckpointFile;

/// Calls @p look for each checkpoint of a directory, oldest first. A run that lives may retire any of them before its
/// turn comes: then @p look gives false. Where all that were listed have gone so, they are listed anew.
void look_at_each(const std::filesystem::path& directory, const std::function<bool(const CheckpointFile&)>& look);

/// What stands for a file, to see whether another one has taken its name, or its content was changed.
struct FileState {
  std::uint64_t inode = 0;
  std::int64_t modified_ns = 0;
  bool operator==(const FileState&) const = default;
};
/// Nothing if there is none of that name, or it cannot be looked at.
std::optional<FileState> state_of(const std::filesystem::path& file);
/// Those of all checkpoints in a directory.
std::map<std::filesystem::path, std::optional<FileState>> states_in(const std::filesystem::path& directory);

/// Takes the lock of a directory for a short look or change, without waiting. @throws StorageError (locked)
manager::DirectoryLock lock_for_a_moment(const std::filesystem::path& directory);

/// Whether there is nothing of that name now. False where that cannot be seen.
bool is_gone(const std::filesystem::path& file) noexcept;

/// Who stands in the lock file while this tool makes a checkpoint.
manager::LockHolder this_process();

/// The damaged checkpoints that a restart has set aside (suffix `.corrupt`), sorted by name.
std::vector<std::filesystem::path> set_aside_files(const std::filesystem::path& directory);

/// When a checkpoint was saved.
std::chrono::system_clock::time_point time_of(const storage::FileMetadata& metadata);

/// "optimizer/momentum, elements [0:512] written by rank 3: checksum does not match".
std::string damage_text(const storage::Damage& damage);

}  // namespace reprieve::tool
