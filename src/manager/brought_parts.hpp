// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Parts of near copies that nodes have brought into the checkpoint directory, where all nodes can read them: what one
/// node has is no checkpoint, and it may be gone before the others bring theirs. No MPI.

#include <functional>
#include <set>
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

/// The names of all files in it, without a look into them. @throws StorageError
[[nodiscard]] std::set<std::string> names_of_brought_parts(const core::Directory& checkpoints);

/// Copies a part there, durably. One of that name is replaced. Nothing is left of one that is not whole.
/// @param part  the open file of @p found
/// @param may_go_on  asked before each piece
/// Returns false, and brings nothing, if that said no, or if the part was written anew meanwhile.
/// @throws StorageError, CorruptError if it shrinks
bool bring_part(const storage::PosixFile& part, const FoundPart& found, const core::Directory& checkpoints,
                const std::function<bool()>& may_go_on);

/// Removes those of a prefix that are no newer than a checkpoint, what nobody has finished for a day, and the directory
/// if it is empty then. Logs what goes wrong.
void remove_brought_parts(const core::Directory& checkpoints, const std::string& prefix,
                          const storage::SaveIdentity& newest) noexcept;
/// Removes these files, as far as they are there, and the directory if it is empty then. Logs what goes wrong.
void remove_brought_parts(const core::Directory& checkpoints, const std::set<std::string>& names) noexcept;

}  // namespace reprieve::manager
