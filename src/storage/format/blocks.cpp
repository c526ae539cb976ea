// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/blocks.hpp"

#include <algorithm>
#include <numeric>

namespace reprieve::storage {

std::optional<std::uint64_t> dense_position(std::span<const std::uint64_t> shape, std::span<const std::uint64_t> offset,
                                            std::span<const std::uint64_t> extent, std::size_t element_size) {
  std::uint64_t position = 0;
  std::uint64_t stride = element_size;
  bool is_whole = true;  // in all dimensions so far
  for (std::size_t d = extent.size(); d-- > 0;) {
    if (extent[d] == 0 || (!is_whole && extent[d] > 1)) {
      return std::nullopt;
    }
    is_whole = is_whole && extent[d] == shape[d];
    position += offset[d] * stride;
    stride *= shape[d];
  }
  return position;
}

std::string text_of(const Box& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.extent.size(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(box.offset[d]) + ":" + std::to_string(box.offset[d] + box.extent[d]);
  }
  return text + "]";
}

Box intersection(const Box& a, const Box& b) {
  Box common = a;
  for (std::size_t d = 0; d < a.extent.size(); ++d) {
    const std::uint64_t first = std::max(a.offset[d], b.offset[d]);
    const std::uint64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    common.offset[d] = first;
    common.extent[d] = end > first ? end - first : 0;
  }
  return common;
}

std::ptrdiff_t displacement(const Box& box, const Strides& strides_bytes, const Extents& index) {
  std::ptrdiff_t bytes = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    bytes += static_cast<std::ptrdiff_t>(index[d] - box.offset[d]) * strides_bytes[d];
  }
  return bytes;
}

void copy_from(const BoxView<const std::byte>& view, const std::byte* from, const Extents& extent,
               std::size_t element_size, std::byte* to, const Strides& to_strides, state::Staging& staging) {
  if (view.space != nullptr) {
    staging.copy_out(*view.space, to, to_strides, from, view.strides_bytes, extent, element_size);
  } else {
    copy_box(to, to_strides, from, view.strides_bytes, extent, element_size);
  }
}

void copy_into(const BoxView<std::byte>& view, std::byte* to, const Extents& extent, std::size_t element_size,
               const std::byte* from, const Strides& from_strides, state::Staging& staging) {
  if (view.space != nullptr) {
    staging.copy_in(*view.space, to, view.strides_bytes, from, from_strides, extent, element_size);
  } else {
    copy_box(to, view.strides_bytes, from, from_strides, extent, element_size);
  }
}

std::uint64_t run_length(const Box& box, const Extents& shape) {
  if (volume(box.extent) == 0) {
    return 0;
  }
  return state::inner_bytes(box.extent, state::outer_dimensions(box.extent, dense_strides(shape, 1), 1), 1);
}

void for_each_run(const Box& box, const Extents& shape,
                  const std::function<void(std::uint64_t first, std::uint64_t count)>& visit) {
  if (volume(box.extent) == 0) {
    return;
  }
  const Strides strides = dense_strides(shape, 1);
  const std::size_t outer = state::outer_dimensions(box.extent, strides, 1);
  const std::uint64_t count = state::inner_bytes(box.extent, outer, 1);
  const std::ptrdiff_t start = state::distance(box.offset, strides, shape.size());
  Extents index(outer, 0);
  do {
    visit(static_cast<std::uint64_t>(start + state::distance(index, strides, outer)), count);
  } while (state::next_index(index, box.extent, outer));
}

namespace {

/// @param outer  the index in the dimensions before @p dimension, within which the range lies
void add_range(const Extents& shape, std::size_t dimension, Box outer, std::uint64_t first, std::uint64_t count,
               std::vector<Box>& boxes) {
  if (count == 0) {
    return;
  }
  if (dimension == shape.size()) {
    boxes.push_back(std::move(outer));
    return;
  }
  const std::uint64_t inner = std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(dimension) + 1, shape.end(),
                                              std::uint64_t{1}, std::multiplies<>());
  const auto add_part = [&](std::uint64_t from, std::uint64_t part) {
    Box at(outer);
    at.offset[dimension] = from / inner;
    at.extent[dimension] = 1;
    add_range(shape, dimension + 1, std::move(at), from % inner, part, boxes);
  };
  const std::uint64_t head = first % inner == 0 ? 0 : std::min(inner - first % inner, count);
  add_part(first, head);
  const std::uint64_t rows = (count - head) / inner;
  if (rows > 0) {
    Box whole_rows(outer);
    whole_rows.offset[dimension] = (first + head) / inner;
    whole_rows.extent[dimension] = rows;
    boxes.push_back(std::move(whole_rows));
  }
  add_part(first + head + rows * inner, count - head - rows * inner);
}

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
    const auto count = static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (count > most) {
      most = count;
      best = d;
    }
  }
  return best;
}

}  // namespace

std::vector<Box> boxes_of_range(const Extents& shape, std::uint64_t first, std::uint64_t count) {
  std::vector<Box> boxes;
  add_range(shape, 0, whole(shape), first, count, boxes);
  return boxes;
}

std::vector<std::size_t> find_overlap(const std::vector<Box>& boxes) {
  Indexes set;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (volume(boxes[i].extent) > 0) {
      set.push_back(i);
    }
  }
  return overlap_in(boxes, set);
}

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

std::vector<std::size_t> BoxSearch::intersecting(const Box& wanted) const {
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
