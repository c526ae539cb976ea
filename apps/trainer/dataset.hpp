// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The digits data set: images of 8x8 pixels and the digit that each one shows.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "trainer/model.hpp"

namespace trainer {

constexpr std::size_t kPixels = 64;
constexpr std::size_t kClasses = 10;

/// The images, split: every fifth one is held out for evaluation, whatever the seed.
struct Dataset {
  Samples training;
  Samples held_out;
  std::uint64_t fingerprint = 0;  ///< of the text; tells data sets apart
};

/// The text of a gzip file. (A file that is not compressed is taken as it is.)
/// @throws reprieve::StorageError if it cannot be read or is cut short or damaged
std::string read_gzip(const std::filesystem::path& file);

/// Parses lines of 64 pixels (0 to 16, scaled to 0..1) and the digit (0 to 9), separated by commas.
/// @param origin  shown in error messages
/// @throws reprieve::ConfigError that names the line
Dataset parse_digits(std::string_view text, const std::string& origin);

}  // namespace trainer
