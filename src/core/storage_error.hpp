// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The error of a failed file system call.

#include <filesystem>
#include <string>

#include "reprieve/error.hpp"

namespace reprieve::core {

/// The cause as a code (no_space, permission, io), and a message with the path and the system's own text; where space
/// is missing, with what is left of it.
[[nodiscard]] StorageError storage_error(const std::string& action, const std::filesystem::path& path,
                                         int error_number);

}  // namespace reprieve::core
