#pragma once

/// @file
/// Who may read what the library writes. The directory decides: one that the library made is its user's alone, and so
/// is all that is in it; into one that the user opened to others (`mkdir -m 750`), checkpoints are put readable for
/// those.

#include <sys/types.h>

#include <filesystem>

namespace reprieve::core {

/// For directories that the library makes.
inline constexpr mode_t kOwnDirectory = 0700;
/// For files whose directory does not matter, since it is the user's alone.
inline constexpr mode_t kOwnFile = 0600;

/// The mode of a file in @p directory: for its user, and readable for those who may read the directory.
[[nodiscard]] mode_t file_mode_in(const std::filesystem::path& directory) noexcept;

/// The same of a directory.
[[nodiscard]] mode_t directory_mode_in(const std::filesystem::path& directory) noexcept;

}  // namespace reprieve::core
