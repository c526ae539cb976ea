// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Does a checkpoint fit the registered state? Pure.

#include <string>
#include <string_view>
#include <vector>

#include "state/registry.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// One registered variable together with what the file has for it.
struct RestoreTarget {
  const std::string* name = nullptr;  ///< as it is registered; it may be stored under a former one
  const StoredVariable* stored = nullptr;
  const state::Variable* variable = nullptr;
  DistributedArray array{};  ///< distributed only: the memory of this rank's boxes
};

using Differences = std::vector<std::string>;  ///< a line each; empty if everything fits

struct Comparison {
  std::vector<RestoreTarget> values;  ///< replicated and per-rank
  std::vector<RestoreTarget> arrays;  ///< distributed
  Differences differences;
  /// What the restore will leave as it is, or leave out, because it was allowed: a line each.
  std::vector<std::string> remarks;
  std::vector<std::string> warnings;  ///< what is restored all the same, and may be wrong: a line each
};

/// Lines of differences, without the variable's name, for which there is a way out.
inline constexpr std::string_view kNotStored = "registered, but not in the checkpoint";
inline constexpr std::string_view kNotRegistered = "in the checkpoint, but not registered";
inline constexpr std::string_view kRegisteredWith = "registered with ";  ///< another type or shape
inline constexpr std::string_view kRegisteredAs = "registered as ";      ///< another kind
inline constexpr std::string_view kNoRedistribution = "without a redistribution function";

/// What to do about @p differences: a line each; empty if none is known. @param saved_ranks  of the checkpoint
[[nodiscard]] std::vector<std::string> ways_out(const Differences& differences, int saved_ranks);

/// Compares all names and kinds, and the types and shapes of values, for rank @p rank of @p size. Touches no variable,
/// and describes no array.
[[nodiscard]] Comparison compare_with_file(const Checkpoint::Registry& registry, const FileIndex& index, int rank,
                                           int size);

/// Describes the arrays that the user describes, or the others, and compares their types and shapes. With the others,
/// what is known from the registration of those that the user describes is compared as well.
/// @throws UsageError if a layout is not allowed, and what the user's describe functions throw
[[nodiscard]] Differences compare_arrays(std::vector<RestoreTarget>& arrays, bool described_by_user);

/// How a value differs from what one rank stored; empty if it does not. Values that can change their size fit any.
[[nodiscard]] std::string value_difference(const FileIndex& index, const StoredVariable& stored, std::size_t box,
                                           const ValueAccess& value);
[[nodiscard]] std::string array_difference(const StoredVariable& stored, const DistributedArray& array);

/// @throws MismatchError if there is a difference
void throw_unless_fits(const std::string& name, const std::string& difference);

}  // namespace reprieve::storage
