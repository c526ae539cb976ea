#pragma once

/// @file
/// A line that shows how far a long operation is.

#include <chrono>
#include <cstdint>
#include <string>

namespace reprieve::tool {

/// Shows "label  42 %  (1.2 GiB of 2.9 GiB)" on standard error, in place, and wipes it at the end. Shows nothing if
/// standard error is not a terminal, or if all is over in less than half a second.
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
  std::chrono::steady_clock::time_point next_;
};

}  // namespace reprieve::tool
