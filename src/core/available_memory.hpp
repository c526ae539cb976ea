// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How much memory a process can still take before the system kills somebody for it.

#include <cstdint>
#include <filesystem>
#include <string>

namespace reprieve::core {

struct AvailableMemory {
  std::uint64_t of_node = UINT64_MAX;  ///< what the whole node has left; the greatest number if that is unknown
  std::uint64_t of_group =
      UINT64_MAX;     ///< what the control group has left that has the least; the same if there is none
  std::string group;  ///< its directory: processes with the same share what it has
};

/// Linux promises memory that it does not have, and kills when it is used. What can be counted on stands in
/// /proc/meminfo, and in the limits of this process's control groups and of all those above (version 2 and 1).
/// Page cache that can be given up counts as free. Cost: some ten small files.
/// @param root  where /proc and /sys are; tests have another one
[[nodiscard]] AvailableMemory available_memory(const std::filesystem::path& root = "/");

}  // namespace reprieve::core
