// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Checkpoint files that lie: everything in them has the right checksum, and the commit record is good.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "storage/format/file_index.hpp"

namespace reprieve::test {

/// What a valid checkpoint says about itself, to be changed and written again.
struct Forgery {
  explicit Forgery(const std::filesystem::path& valid);

  nlohmann::json manifest;
  std::string manifest_text;         ///< taken instead of the manifest, if not empty
  std::uint64_t dimensions = 1;      ///< of the rows of boxes
  std::vector<std::uint64_t> boxes;  ///< `3 + 2 * dimensions` words each
  std::vector<std::uint64_t> checksums;
  std::uint64_t claimed_version = 1;
  std::function<void(std::array<storage::Region, 3>&)>
      move_tables;  ///< where the commit record says that the tables are

  /// The manifest's entry of a variable.
  nlohmann::json& variable(const std::string& name);
  /// The words of the first box of a variable.
  std::uint64_t* box_of(const std::string& name);

  /// Writes the file. The data are those of the valid one; the tables lie behind them.
  void write(const std::filesystem::path& file) const;

 private:
  storage::Bytes content_;
};

}  // namespace reprieve::test
