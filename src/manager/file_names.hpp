// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Names of checkpoint files. Pure: no files are touched.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprieve::manager {

inline constexpr std::string_view kCheckpointSuffix = ".h5";
inline constexpr std::string_view kFilesSuffix = ".files";
/// Behind the name of a checkpoint that was set aside as damaged; `.2` and so on may follow.
inline constexpr std::string_view kCorruptSuffix = ".corrupt";

/// `<prefix>-<number><suffix>`
std::string format_name(std::string_view prefix, std::uint64_t number, std::string_view suffix);

/// The number in a name that `format_name` makes; nothing for every other name, such as one with leading zeros.
std::optional<std::uint64_t> parse_name(std::string_view prefix, std::string_view name, std::string_view suffix);

/// A checkpoint that is not committed yet. The time of its save makes the name its own: a rank of a dead run that still
/// lives, and opens the file of its save, never finds that of another run.
struct StagedName {
  std::uint64_t number = 0;
  std::int64_t time_us = 0;  ///< as in the metadata of the checkpoint

  friend bool operator==(const StagedName&, const StagedName&) = default;
};

/// `<prefix>-<number>.<time_us><suffix>`
std::string format_staged_name(std::string_view prefix, StagedName staged, std::string_view suffix);
std::optional<StagedName> parse_staged_name(std::string_view prefix, std::string_view name, std::string_view suffix);

/// Whether a program with another prefix has staged something under that name. @p name  in the staging directory
bool is_staged_under_another_prefix(std::string_view prefix, std::string_view name);

/// The name of a checkpoint that was set aside: `<prefix>-<number>.h5.corrupt`, or `.corrupt.2` and so on.
struct SetAsideName {
  std::string file;
  std::string prefix;
  std::uint64_t number = 0;
  std::string suffix;  ///< from `.corrupt` on
};
std::optional<SetAsideName> parse_set_aside_name(std::string_view name);

}  // namespace reprieve::manager
