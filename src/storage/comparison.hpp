#pragma once

/// @file
/// Does a checkpoint fit the registered state? Pure.

#include <string>
#include <vector>

#include "state/registry.hpp"
#include "storage/file_index.hpp"

namespace reprieve::storage {

/// One registered variable together with what the file has for it.
struct RestoreTarget {
  const StoredVariable* stored = nullptr;
  const state::Variable* variable = nullptr;
  DistributedArray array;  ///< distributed only: the memory of this rank's boxes
};

struct Comparison {
  std::vector<RestoreTarget> targets;
  std::vector<std::string> differences;  ///< a line each; empty if everything fits
};

/// Compares names, kinds, types and shapes for rank @p rank of @p size. Touches no variable.
/// @throws UsageError if a layout is not allowed, and what the user's describe functions throw
[[nodiscard]] Comparison compare_with_file(const Checkpoint::Registry& registry, const FileIndex& index, int rank,
                                           int size);

}  // namespace reprieve::storage
