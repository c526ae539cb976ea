// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which near copies may be taken, by the parts that were found. Pure: no files are touched, no MPI.

#include <cstdint>
#include <string>
#include <vector>

#include "storage/near/near_copy.hpp"

namespace reprieve::manager {

/// A complete part that somebody has found.
struct ListedPart {
  std::string host;  ///< on which it lies; empty: in the checkpoint directory, where all can read it
  std::string file;
  storage::PartName name;
};

/// All that was found of one copy.
struct ListedCopy {
  storage::NearCopy copy;
  std::vector<std::vector<ListedPart>> parts;  ///< by rank; a part can lie at several places

  [[nodiscard]] bool is_complete() const;
  /// The ranks whose parts were not found.
  [[nodiscard]] std::vector<int> missing() const;
  /// "the near copy at step 7 of 2 ranks is not complete: parts of ranks 1 were not found here"
  [[nodiscard]] std::string incomplete_text() const;
};

/// What a copy must fit to.
struct NearTarget {
  std::string directory_id;
  std::uint64_t inode = 0;
  std::string prefix;
  storage::SaveIdentity newest_checkpoint{};  ///< all zero: there is none
  bool has_unreadable = false;                ///< a checkpoint that cannot be read may be the newest
};

/// Whether @p a was made after @p b.
[[nodiscard]] bool is_newer(const storage::SaveIdentity& a, const storage::SaveIdentity& b);

/// The copies of that directory and prefix that are newer than all of its checkpoints, the newest first, whether
/// complete or not. Not those that knew a checkpoint that is gone: the user has gone back. That is logged.
[[nodiscard]] std::vector<ListedCopy> wanted_copies(const std::vector<ListedPart>& parts, const NearTarget& target);

}  // namespace reprieve::manager
