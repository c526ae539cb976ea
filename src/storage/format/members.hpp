// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Lists of members of elements that are structs: how two of them differ, and the room they take. Pure.

#include <cstdint>
#include <string>

#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// Names every member that is not the same in both, and says how; empty if there is none. @param others  who has the
/// other list: "rank 0"
[[nodiscard]] std::string members_difference(const Members& own, const Members& other, const std::string& others);

/// No less than all lists take in the file.
[[nodiscard]] std::uint64_t most_member_bytes(const FileIndex& index);

}  // namespace reprieve::storage
