// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/box_search.hpp"

#include <algorithm>
#include <numeric>

namespace reprieve::storage {

namespace {

/// 0 for scalars too.
std::size_t most_divided_dimension(const std::vector<Box>& boxes) {
  std::size_t best = 0;
  std::size_t most = 0;
  const std::size_t dimensions = boxes.empty() ? 0 : boxes.front().extent.size();
  std::vector<std::uint64_t> begins;
  begins.reserve(boxes.size());
  for (std::size_t d = 0; d < dimensions; ++d) {
    begins.clear();
    for (const Box& box : boxes) {
      begins.push_back(box.offset[d]);
    }
    std::ranges::sort(begins);
    const auto places = static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (places > most) {
      most = places;
      best = d;
    }
  }
  return best;
}

}  // namespace

BoxSearch::BoxSearch(std::vector<Box> boxes) : boxes_(std::move(boxes)), dimension_(most_divided_dimension(boxes_)) {
  order_.resize(boxes_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (boxes_.empty() || boxes_.front().extent.empty()) {
    return;
  }
  const auto begin_of = [this](std::size_t box) { return boxes_[box].offset[dimension_]; };
  std::ranges::stable_sort(order_, {}, begin_of);
  std::uint64_t last = 0;
  for (const std::size_t box : order_) {
    last = std::max(last, begin_of(box) + boxes_[box].extent[dimension_]);
    last_end_.push_back(last);
  }
}

std::vector<std::size_t> BoxSearch::meeting(const Box& wanted) const {
  std::vector<std::size_t> found;
  auto first = order_.begin();
  auto end = order_.end();
  if (!last_end_.empty()) {
    const std::uint64_t from = wanted.offset[dimension_];
    const std::uint64_t to = from + wanted.extent[dimension_];
    end = std::ranges::lower_bound(order_, to, {}, [this](std::size_t box) { return boxes_[box].offset[dimension_]; });
    first += std::ranges::upper_bound(last_end_, from) - last_end_.begin();
  }
  for (; first < end; ++first) {
    if (volume(intersection(boxes_[*first], wanted).extent) > 0) {
      found.push_back(*first);
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace reprieve::storage
