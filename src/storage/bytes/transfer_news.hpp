// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// How far a long transfer is, for those who wait for it.

#include <chrono>
#include <cstdint>
#include <string>

namespace reprieve::storage {

/// Tells in the log how far a transfer of this process is: after ten seconds, and every ten seconds from then on. On
/// ranks whose log shows warnings only, nothing is seen of it.
class TransferNews {
 public:
  /// @param what  "writing /scratch/checkpoints/ckpt-7.h5"
  TransferNews(std::string what, std::uint64_t total_bytes) : what_(std::move(what)), total_(total_bytes) {}

  /// So many more are done. Costs a look at the clock. Without the memory to tell it, it is not told.
  void add(std::uint64_t bytes) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInterval{10};

  std::string what_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_ + kInterval;
};

}  // namespace reprieve::storage
