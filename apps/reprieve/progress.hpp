// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A line that shows how far a long operation is.

#include <chrono>
#include <cstdint>
#include <string>

namespace reprieve::tool {

/// Shows "label: 1.2 GiB of 2.9 GiB, 410.0 MiB/s, 4 s left" on standard error. On a terminal in place, after half a
/// second, and wiped at the end; elsewhere a line every ten seconds.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done_bytes, std::uint64_t total_bytes);

 private:
  std::string label_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace reprieve::tool
