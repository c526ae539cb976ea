// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Parts of near copies that nodes have brought into the checkpoint directory, where all nodes can read them: what one
/// node has is no checkpoint, and it may be gone before the others bring theirs. No MPI.

#include <string>
#include <vector>

#include "core/directory.hpp"
#include "manager/near_choice.hpp"
#include "manager/near_place.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::manager {

/// Name of the directory for them, inside the checkpoint directory.
inline constexpr const char* kBroughtName = ".reprieve.parts";

/// The complete ones. What cannot be read is passed over. @throws StorageError
[[nodiscard]] std::vector<FoundPart> brought_parts(const core::Directory& checkpoints);

/// @throws StorageError, also if it is gone
[[nodiscard]] storage::PosixFile open_brought_part(const core::Directory& checkpoints, const std::string& file);

/// Copies a part there, durably. One of that name is replaced. @throws StorageError, CorruptError if it shrinks
void bring_part(const storage::PosixFile& part, const std::string& name, const core::Directory& checkpoints);

/// Removes those of a prefix that are no newer than a checkpoint, and the directory if it is empty then. Logs what goes
/// wrong.
void remove_brought_parts(const core::Directory& checkpoints, const std::string& prefix,
                          const storage::SaveIdentity& newest) noexcept;

}  // namespace reprieve::manager
