// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Who may read what the library writes. The directory decides: one that the library made is its user's alone, and so
/// is all that is in it; into one that the user opened to others (`mkdir -m 750`), checkpoints are put readable for
/// those.

#include <sys/types.h>

namespace reprieve::core {

/// For directories that the library makes.
inline constexpr mode_t kOwnDirectory = 0700;
/// For files whose directory does not matter, since it is the user's alone.
inline constexpr mode_t kOwnFile = 0600;

/// Gives a file that was made just now the rights that the umask took away. Not to files of others or with content:
/// their rights are for their users to choose. @return an error number if the file cannot be looked at, or 0
int give_rights(int descriptor, mode_t mode) noexcept;

/// Whether a refusal to change rights is the way of the file system, and no fault. Says so once.
[[nodiscard]] bool has_no_rights(int error_number) noexcept;

}  // namespace reprieve::core
