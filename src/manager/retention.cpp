#include "manager/retention.hpp"

#include <algorithm>
#include <optional>

namespace reprieve::manager {

std::vector<std::uint64_t> to_retire(std::vector<RetentionEntry> checkpoints, const RetentionPolicy& policy,
                                     std::uint64_t committed) {
  if (policy.max_to_keep == 0 || checkpoints.size() <= policy.max_to_keep) {
    return {};
  }
  std::sort(checkpoints.begin(), checkpoints.end(),
            [](const RetentionEntry& a, const RetentionEntry& b) { return a.number < b.number; });
  checkpoints.resize(checkpoints.size() - policy.max_to_keep);

  std::vector<std::uint64_t> retired;
  std::optional<std::chrono::system_clock::time_point> last_kept;
  for (const RetentionEntry& entry : checkpoints) {
    const bool begins_span =
        policy.keep_every.count() > 0 && (!last_kept || entry.time - *last_kept >= policy.keep_every);
    if (begins_span) {
      last_kept = entry.time;
    } else if (entry.number != committed) {
      retired.push_back(entry.number);
    }
  }
  return retired;
}

}  // namespace reprieve::manager
