// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which checkpoints a restore may take, and in which order. The chief's.

#include <cstdint>
#include <string>
#include <vector>

#include "manager/checkpoint_directory.hpp"

namespace reprieve::manager {

/// Numbers of the committed checkpoints, newest first; those of other directories only if there are no others. The log
/// tells which are passed over, since the file names may suggest something else.
/// @throws UsageError if all are of other directories, and of several
[[nodiscard]] std::vector<std::uint64_t> find_candidates(CheckpointDirectory& directory,
                                                         const std::string& directory_id);

/// The same, but never those of other directories, and nothing is logged.
[[nodiscard]] std::vector<std::uint64_t> find_own(CheckpointDirectory& directory, const std::string& directory_id);

}  // namespace reprieve::manager
