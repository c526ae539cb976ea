// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The paths by which a state becomes durable.

#include <filesystem>
#include <string>
#include <vector>

#include "measure.hpp"
#include "workload.hpp"

namespace reprieve::bench {

/// What a path is compared with.
enum class Limit { none, new_file, rewritten_file };

struct SavePath {
  Candidate candidate;
  Limit is_limit_for = Limit::none;  ///< one of the raw ones, of which the best is the limit
};

/// All paths that this machine can take. Each has its own files in @p directory. The workload must outlive them.
/// Collective over MPI_COMM_WORLD.
[[nodiscard]] std::vector<SavePath> save_paths(Workload& workload, const std::filesystem::path& directory);

}  // namespace reprieve::bench
