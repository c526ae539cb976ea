// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The checkpoint directory as a place: made if it is not there, and looked at: whose it is, and who may write in it.
/// No MPI.

#include <filesystem>

#include "core/directory.hpp"

namespace reprieve::manager {

/// Opens a directory. Makes it, and those above it, if they are not there, for this user alone.
/// @param durable  what was made survives a power cut
/// @throws StorageError
core::Directory make_directories(const std::filesystem::path& path, bool durable);

/// Who may write in a checkpoint directory decides what a program restores. One of another user is refused (root is
/// warned only, who may work for others); one in which others may write is warned of.
/// @throws StorageError
void check_who_may_write(const core::Directory& directory, const std::filesystem::path& path);

}  // namespace reprieve::manager
