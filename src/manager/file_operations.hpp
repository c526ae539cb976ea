#pragma once

/// @file
/// Changes to directories, each checked. All throw StorageError with the path and the system's reason.

#include <filesystem>

namespace reprieve::manager {

/// Makes a directory that must not exist, in a parent that must.
void make_directory(const std::filesystem::path& path, unsigned mode);

/// chmod. @throws StorageError
void set_mode(const std::filesystem::path& path, unsigned mode);

/// rename(2): replaces an existing file atomically.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// Removes a file, or a directory with all it holds; does not follow symbolic links. No error if there is none.
void remove_tree(const std::filesystem::path& path);

/// fsync of a directory: makes the names in it durable.
void sync_directory(const std::filesystem::path& directory);

/// fsync of all files and directories below @p directory, and of itself.
void sync_tree(const std::filesystem::path& directory);

/// The same as `remove_tree`, for clean-up that must not hide the error that led to it: logs instead of throwing.
void remove_tree_or_log(const std::filesystem::path& path) noexcept;

}  // namespace reprieve::manager
