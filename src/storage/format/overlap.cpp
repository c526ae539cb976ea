// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <numeric>

#include "storage/format/blocks.hpp"

namespace reprieve::storage {

namespace {

using Indexes = std::vector<std::size_t>;

/// Sets of boxes up to this size are compared pair by pair.
constexpr std::size_t kPairwise = 16;

/// A plane between two indexes of one dimension, and the boxes on its two sides; those that it cuts are on both.
struct Cut {
  Indexes below;
  Indexes above;

  [[nodiscard]] std::size_t larger() const { return std::max(below.size(), above.size()); }
};

/// Cuts at the middle one of the boxes' starts, so that a regular grid falls into halves.
Cut cut_along(const std::vector<Box>& boxes, const Indexes& set, std::size_t dimension) {
  std::vector<std::uint64_t> starts;
  starts.reserve(set.size());
  for (const std::size_t i : set) {
    starts.push_back(boxes[i].offset[dimension]);
  }
  std::nth_element(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2), starts.end());
  const std::uint64_t plane = starts[starts.size() / 2];
  Cut cut;
  for (const std::size_t i : set) {
    if (boxes[i].offset[dimension] < plane) {
      cut.below.push_back(i);
    }
    if (boxes[i].offset[dimension] + boxes[i].extent[dimension] > plane) {
      cut.above.push_back(i);
    }
  }
  return cut;
}

Indexes overlap_by_pairs(const std::vector<Box>& boxes, const Indexes& set) {
  for (std::size_t a = 0; a < set.size(); ++a) {
    for (std::size_t b = a + 1; b < set.size(); ++b) {
      if (volume(intersection(boxes[set[a]], boxes[set[b]]).extent) > 0) {
        return {std::min(set[a], set[b]), std::max(set[a], set[b])};
      }
    }
  }
  return {};
}

Indexes overlap_in(const std::vector<Box>& boxes, const Indexes& set) {
  if (set.size() <= kPairwise) {
    return overlap_by_pairs(boxes, set);
  }
  Cut best = cut_along(boxes, set, 0);
  for (std::size_t d = 1; d < boxes[set.front()].extent.size(); ++d) {
    Cut cut = cut_along(boxes, set, d);
    if (cut.larger() < best.larger()) {
      best = std::move(cut);
    }
  }
  // Without a plane that parts the boxes well, many of them are likely to overlap.
  if (best.larger() > set.size() - set.size() / 4) {
    return overlap_by_pairs(boxes, set);
  }
  Indexes found = overlap_in(boxes, best.below);
  return found.empty() ? overlap_in(boxes, best.above) : found;
}

}  // namespace

std::vector<std::size_t> find_overlap(const std::vector<Box>& boxes) {
  Indexes set;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (volume(boxes[i].extent) > 0) {
      set.push_back(i);
    }
  }
  return overlap_in(boxes, set);
}

}  // namespace reprieve::storage
