#include "storage/blocks.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace reprieve::storage {

std::uint64_t volume(const Extents& extent) {
  return std::accumulate(extent.begin(), extent.end(), std::uint64_t{1}, std::multiplies<>());
}

bool checked_bytes(const Extents& extent, std::uint64_t element_size, std::uint64_t& bytes) {
  bytes = 0;
  if (std::find(extent.begin(), extent.end(), 0U) != extent.end()) {
    return true;
  }
  std::uint64_t product = element_size;
  for (const std::uint64_t length : extent) {
    if (__builtin_mul_overflow(product, length, &product)) {
      return false;
    }
  }
  bytes = product;
  return product <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

std::string text_of(const Box& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.extent.size(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(box.offset[d]) + ":" + std::to_string(box.offset[d] + box.extent[d]);
  }
  return text + "]";
}

std::string text_of(const Extents& extents) {
  std::string text = "[";
  for (std::size_t d = 0; d < extents.size(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(extents[d]);
  }
  return text + "]";
}

Box whole(const Extents& shape) { return {Extents(shape.size(), 0), shape}; }

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

Strides dense_strides(const Extents& extent, std::size_t element_size) {
  Strides strides(extent.size());
  auto stride = static_cast<std::uint64_t>(element_size);
  for (std::size_t d = extent.size(); d-- > 0;) {
    strides[d] = static_cast<std::ptrdiff_t>(stride);
    stride *= extent[d];
  }
  return strides;
}

bool is_dense(const Extents& extent, const Strides& strides_bytes, std::size_t element_size) {
  const Strides dense = dense_strides(extent, element_size);
  for (std::size_t d = 0; d < extent.size(); ++d) {
    if (extent[d] > 1 && strides_bytes[d] != dense[d]) {
      return false;
    }
  }
  return true;
}

std::ptrdiff_t displacement(const Box& box, const Strides& strides_bytes, const Extents& index) {
  std::ptrdiff_t bytes = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    bytes += static_cast<std::ptrdiff_t>(index[d] - box.offset[d]) * strides_bytes[d];
  }
  return bytes;
}

BlockSplit::BlockSplit(Box box, std::size_t element_size, std::uint64_t max_bytes) : box_(std::move(box)) {
  const Extents& extent = box_.extent;
  if (volume(extent) == 0) {
    return;
  }
  // The slowest dimension of which at least one index fits into a block, with all dimensions after it.
  cut_dimension_ = extent.empty() ? 0 : extent.size() - 1;
  std::uint64_t inner_bytes = element_size;
  while (cut_dimension_ > 0 && inner_bytes * extent[cut_dimension_] <= max_bytes) {
    inner_bytes *= extent[cut_dimension_];
    --cut_dimension_;
  }
  count_ = 1;
  if (extent.empty()) {
    return;
  }
  cut_length_ = std::clamp<std::uint64_t>(max_bytes / inner_bytes, 1, extent[cut_dimension_]);
  cuts_ = (extent[cut_dimension_] - 1) / cut_length_ + 1;
  count_ = cuts_;
  for (std::size_t d = 0; d < cut_dimension_; ++d) {
    count_ *= extent[d];
  }
}

Box BlockSplit::block(std::uint64_t index) const {
  Box block = box_;
  if (box_.extent.empty()) {
    return block;
  }
  const std::uint64_t start = (index % cuts_) * cut_length_;
  block.offset[cut_dimension_] += start;
  block.extent[cut_dimension_] = std::min(cut_length_, box_.extent[cut_dimension_] - start);
  std::uint64_t rest = index / cuts_;
  for (std::size_t d = cut_dimension_; d-- > 0;) {
    block.offset[d] += rest % box_.extent[d];
    block.extent[d] = 1;
    rest /= box_.extent[d];
  }
  return block;
}

namespace {

/// Steps @p index through the first @p dimensions dimensions of @p extent, in C order. False after the last.
bool next_index(Extents& index, const Extents& extent, std::size_t dimensions) {
  for (std::size_t d = dimensions; d-- > 0;) {
    if (++index[d] < extent[d]) {
      return true;
    }
    index[d] = 0;
  }
  return false;
}

std::ptrdiff_t distance(const Extents& index, const Strides& strides, std::size_t dimensions) {
  std::ptrdiff_t bytes = 0;
  for (std::size_t d = 0; d < dimensions; ++d) {
    bytes += static_cast<std::ptrdiff_t>(index[d]) * strides[d];
  }
  return bytes;
}

/// How many leading dimensions must be stepped through, when those after them are dense in memory.
std::size_t outer_dimensions(const Extents& extent, const Strides& strides, std::size_t element_size) {
  std::size_t outer = extent.size();
  auto run = static_cast<std::ptrdiff_t>(element_size);
  while (outer > 0 && (extent[outer - 1] == 1 || strides[outer - 1] == run)) {
    run *= static_cast<std::ptrdiff_t>(extent[outer - 1]);
    --outer;
  }
  return outer;
}

std::size_t inner_bytes(const Extents& extent, std::size_t outer, std::size_t element_size) {
  std::size_t bytes = element_size;
  for (std::size_t d = outer; d < extent.size(); ++d) {
    bytes *= static_cast<std::size_t>(extent[d]);
  }
  return bytes;
}

/// A row of single elements; the size is a constant, so that each copy is one load and one store.
template <std::size_t size>
void copy_row(std::byte* to, std::ptrdiff_t to_stride, const std::byte* from, std::ptrdiff_t from_stride,
              std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, size);
    to += to_stride;
    from += from_stride;
  }
}

using CopyRow = void (*)(std::byte*, std::ptrdiff_t, const std::byte*, std::ptrdiff_t, std::uint64_t);

CopyRow copy_row_of(std::size_t element_size) {
  switch (element_size) {
    case 1:
      return copy_row<1>;
    case 2:
      return copy_row<2>;
    case 4:
      return copy_row<4>;
    case 8:
      return copy_row<8>;
    case 16:
      return copy_row<16>;
    default:
      return nullptr;
  }
}

}  // namespace

void for_each_run(const Box& box, const Extents& shape,
                  const std::function<void(std::uint64_t first, std::uint64_t count)>& visit) {
  if (volume(box.extent) == 0) {
    return;
  }
  const Strides strides = dense_strides(shape, 1);
  const std::size_t outer = outer_dimensions(box.extent, strides, 1);
  const std::uint64_t count = inner_bytes(box.extent, outer, 1);
  const std::ptrdiff_t start = distance(box.offset, strides, shape.size());
  Extents index(outer, 0);
  do {
    visit(static_cast<std::uint64_t>(start + distance(index, strides, outer)), count);
  } while (next_index(index, box.extent, outer));
}

void copy_box(std::byte* to, const Strides& to_strides, const std::byte* from, const Strides& from_strides,
              const Extents& extent, std::size_t element_size) {
  if (volume(extent) == 0) {
    return;
  }
  const std::size_t outer = std::max(outer_dimensions(extent, to_strides, element_size),
                                     outer_dimensions(extent, from_strides, element_size));
  const CopyRow copy_single = copy_row_of(element_size);
  // Single elements: the last dimension that is stepped through becomes a loop of its own.
  const bool row_wise = outer == extent.size() && outer > 0 && copy_single != nullptr;
  const std::size_t stepped = row_wise ? outer - 1 : outer;
  const std::size_t run = inner_bytes(extent, outer, element_size);
  Extents index(stepped, 0);
  do {
    std::byte* target = to + distance(index, to_strides, stepped);
    const std::byte* source = from + distance(index, from_strides, stepped);
    if (row_wise) {
      copy_single(target, to_strides[stepped], source, from_strides[stepped], extent[stepped]);
    } else {
      std::memcpy(target, source, run);
    }
  } while (next_index(index, extent, stepped));
}

void zero_box(std::byte* to, const Strides& strides, const Extents& extent, std::size_t element_size) {
  if (volume(extent) == 0) {
    return;
  }
  const std::size_t outer = outer_dimensions(extent, strides, element_size);
  const std::size_t run = inner_bytes(extent, outer, element_size);
  Extents index(outer, 0);
  do {
    std::memset(to + distance(index, strides, outer), 0, run);
  } while (next_index(index, extent, outer));
}

}  // namespace reprieve::storage
