// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The files that the subcommands are given.

#include <chrono>
#include <filesystem>
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

/// Who stands in the lock file while this tool changes a directory.
manager::LockHolder this_process();

/// The damaged checkpoints that a restart has set aside (suffix `.corrupt`), sorted by name.
std::vector<std::filesystem::path> set_aside_files(const std::filesystem::path& directory);

/// When a checkpoint was saved.
std::chrono::system_clock::time_point time_of(const storage::FileMetadata& metadata);

/// "optimizer/momentum, elements [0:512] written by rank 3: checksum does not match".
std::string damage_text(const storage::Damage& damage);

}  // namespace reprieve::tool
