// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which checkpoints to remove. Pure: no files, no clock.

#include <chrono>
#include <cstdint>
#include <vector>

namespace reprieve::manager {

struct RetentionPolicy {
  std::uint64_t max_to_keep = 0;       ///< newest checkpoints to keep; 0 keeps all
  std::chrono::seconds keep_every{0};  ///< beyond these, keep one for every such span; zero: off
};

struct RetentionEntry {
  std::uint64_t number = 0;
  std::chrono::system_clock::time_point time;  ///< of the save
};

/// The numbers of the checkpoints that @p policy gives up, oldest first.
///
/// Beyond the newest, `keep_every` keeps the oldest checkpoint, and then each that was saved
/// at least one span after the one kept before it: the answer stays the same when it is asked again after every save.
/// @param checkpoints  oldest first, as `sort_oldest_first` has them
/// @param committed  the checkpoint that has just been saved: never given up, whatever its number
std::vector<std::uint64_t> to_retire(std::vector<RetentionEntry> checkpoints, const RetentionPolicy& policy,
                                     std::uint64_t committed);

}  // namespace reprieve::manager
