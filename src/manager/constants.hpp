// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What must be the same in every run that uses a directory (`Checkpoint::add_constant`). No MPI; the chief's.

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "state/registry.hpp"

namespace reprieve::manager {

/// By name, as they stand in a file.
using Constants = std::map<std::string, std::string>;

/// The name under which the task of a Slurm array is one of them.
inline constexpr const char* kArrayTaskName = "slurm array task";

/// Those that the program registered, with long texts and files as their digests; and the task, inside of an array.
/// @param environment  a variable's value, or nothing
/// @throws StorageError, CorruptError if a file cannot be read
Constants find_constants(const Checkpoint::Registry& registry, bool with_array_task,
                         const std::function<std::optional<std::string>(const char*)>& environment);

/// Compares those of a file with those of this run. One that only one of them has is told in the log, and no error.
/// @throws MismatchError with all that differ
void compare_constants(const std::filesystem::path& file, const Constants& stored, const Constants& present);

}  // namespace reprieve::manager
