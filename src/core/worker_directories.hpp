// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The directories that save functions write to on ranks other than the chief. No MPI.

#include <filesystem>
#include <string>

#include "core/directory.hpp"

namespace reprieve::core {

/// A directory that a rank other than the chief may write to while a save lasts. Removed with its content at the end.
///
/// It is `<parent>/workertemp_<rank>/<base>` for the checkpoint directory `<parent>/<base>`, if the parent is this
/// user's alone and that name is free or this user's. Else it lies inside of the checkpoint directory, as
/// `<parent>/<base>/workertemp_<rank>/<base>`: in a place that others may write in, a name that can be foreseen is
/// theirs as much as ours.
class WriteDirectory {
 public:
  /// Makes it, empty. What a dead run left of that name is removed. @throws StorageError
  /// @param checkpoints  the checkpoint directory, absolute
  WriteDirectory(const std::filesystem::path& checkpoints, int rank);
  /// Removes it, and its `workertemp_<rank>` if nothing else is in there. Logs failures.
  ~WriteDirectory();
  WriteDirectory(const WriteDirectory&) = delete;
  WriteDirectory& operator=(const WriteDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  [[nodiscard]] bool make_beside(const std::filesystem::path& checkpoints, int rank);

  std::string base_;
  Directory place_;  ///< where `outer_` lies
  std::string outer_;
  std::filesystem::path path_;
};

/// Removes what dead ranks left of their write directories, in both places. @throws StorageError
void remove_write_directories(const std::filesystem::path& checkpoints);

/// Removes what dead ranks left beside a checkpoint directory called @p base that lies, or lay, in @p parent.
/// @throws StorageError
void remove_write_directories_beside(const Directory& parent, const std::string& base);

}  // namespace reprieve::core
