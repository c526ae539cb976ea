// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A directory for the files of a benchmark.

#include <filesystem>

namespace reprieve::bench {

/// Made by rank 0 below @p parent (default: the system's directory for temporary files), the same path on every rank,
/// removed at the end. Construction and destruction are collective over MPI_COMM_WORLD.
class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& parent);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] bool is_chief() const noexcept { return is_chief_; }

 private:
  std::filesystem::path path_;
  bool is_chief_ = false;
};

}  // namespace reprieve::bench
