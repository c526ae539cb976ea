// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The private directory of a supervisor, for the records of its runs.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/directory.hpp"

namespace reprieve::supervisor {

/// A new directory that only this user can enter, removed with its content at the end. What supervisors of this user
/// left in the same place when they were killed is removed as well.
///
/// Under another supervisor (a drill of a script that calls `reprieve run`) it lies in that one's directory, which
/// reads it as well and removes it; and what that one orders reaches the runs.
class RunDirectory {
 public:
  /// @param parent  where to make it; nothing: the working directory if the ranks of @p command seem to be on several
  /// nodes, which all must see it, else the directory for temporary files
  /// @throws StorageError if it cannot be made there
  RunDirectory(const std::optional<std::filesystem::path>& parent, const std::vector<std::string>& command);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Whether a record can be written there.
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return own_->path(); }

  /// Makes the directory of one start of the program. @throws StorageError
  [[nodiscard]] std::filesystem::path make(int start) const;

  /// The supervisor above this one rehearses: what happens is not to have consequences beyond the run.
  [[nodiscard]] bool is_rehearsal() const;

 private:
  std::filesystem::path outer_;  ///< that of a supervisor above this one, or empty
  core::Directory place_;        ///< where it was made
  /// Locked as long as this supervisor lives, so that others can see when it has gone. Set by the constructor.
  std::optional<core::Directory> own_;
};

}  // namespace reprieve::supervisor
