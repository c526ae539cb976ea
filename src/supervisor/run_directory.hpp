#pragma once

/// @file
/// The private directory of a supervisor, for the records of its runs.

#include <filesystem>

namespace reprieve::supervisor {

/// A new directory that only this user can enter, removed with its content at the end.
class RunDirectory {
 public:
  /// @throws StorageError if it cannot be made in @p parent
  explicit RunDirectory(const std::filesystem::path& parent);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Makes the directory of one start of the program. @throws StorageError
  [[nodiscard]] std::filesystem::path make(int start) const;

 private:
  std::filesystem::path path_;
};

}  // namespace reprieve::supervisor
