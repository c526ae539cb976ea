// SPDX-License-Identifier: BSD-3-Clause
#include "manager/retention.hpp"

#include <optional>

#include "core/saturating_time.hpp"

namespace reprieve::manager {

std::vector<std::uint64_t> to_retire(std::vector<RetentionEntry> checkpoints, const RetentionPolicy& policy,
                                     std::uint64_t committed) {
  if (policy.max_to_keep == 0 || checkpoints.size() <= policy.max_to_keep) {
    return {};
  }
  checkpoints.resize(checkpoints.size() - policy.max_to_keep);

  std::vector<std::uint64_t> retired;
  std::optional<std::chrono::system_clock::time_point> last_kept;
  for (const RetentionEntry& entry : checkpoints) {
    // A clock that was set back by that much begins a new span too, instead of waiting until it is where it was.
    const auto passed = last_kept ? core::between<std::chrono::seconds>(*last_kept, entry.time) : policy.keep_every;
    const bool begins_span =
        policy.keep_every.count() > 0 && (passed >= policy.keep_every || passed <= -policy.keep_every);
    if (begins_span) {
      last_kept = entry.time;
    } else if (entry.number != committed) {
      retired.push_back(entry.number);
    }
  }
  return retired;
}

}  // namespace reprieve::manager
