// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Where a file lies: its path, for messages and for those who have nothing better, and, where it is known, the open
/// directory below which it is reached whatever becomes of the path.

#include <concepts>
#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "core/directory.hpp"

namespace reprieve::core {

/// A value; any thread. Made of a path alone where nobody holds the directory (tools, files that a user names).
class FileAddress {
 public:
  FileAddress() = default;
  // The condition keeps it away from copies and moves.
  // NOLINTBEGIN(bugprone-forwarding-reference-overload,google-explicit-constructor,hicpp-explicit-conversions)
  template <class Path>
  requires(!std::same_as<std::remove_cvref_t<Path>, FileAddress> &&
           std::constructible_from<std::filesystem::path, Path>) FileAddress(Path&& path)
      : path_(std::forward<Path>(path)) {}
  // NOLINTEND(bugprone-forwarding-reference-overload,google-explicit-constructor,hicpp-explicit-conversions)
  /// @param below  of the directory: names of directories, and that of the file
  FileAddress(std::shared_ptr<const Directory> directory, std::filesystem::path below, std::filesystem::path path)
      : directory_(std::move(directory)), below_(std::move(below)), path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  operator const std::filesystem::path&() const noexcept { return path_; }  // NOLINT: as above
  [[nodiscard]] const char* c_str() const noexcept { return path_.c_str(); }
  [[nodiscard]] std::string string() const { return path_.string(); }
  [[nodiscard]] std::filesystem::path filename() const { return path_.filename(); }

  /// Opens the regular file; see Directory::open_file. Below a directory that is held no link is followed on the way.
  /// @throws StorageError
  [[nodiscard]] Descriptor open(int flags, mode_t mode = 0) const;
  /// The same to read it; the file itself may be a link, since a user may move checkpoints to an archive.
  [[nodiscard]] Descriptor open_to_read() const;

 private:
  [[nodiscard]] Descriptor open_in_place(int flags, mode_t mode, Links links) const;

  std::shared_ptr<const Directory> directory_;  ///< or null
  std::filesystem::path below_;
  std::filesystem::path path_;
};

}  // namespace reprieve::core
