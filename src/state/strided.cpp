// SPDX-License-Identifier: BSD-3-Clause
#include "state/strided.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "reprieve/error.hpp"

namespace reprieve::state {

std::uint64_t volume(std::span<const std::uint64_t> extent) {
  return std::accumulate(extent.begin(), extent.end(), std::uint64_t{1}, std::multiplies<>());
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

Reach reach_of(const Extents& extent, const Strides& strides_bytes, std::size_t element_size) {
  Reach reach{0, volume(extent) == 0 ? 0 : static_cast<std::ptrdiff_t>(element_size)};
  if (reach.end == 0) {
    return reach;
  }
  for (std::size_t d = 0; d < extent.size(); ++d) {
    std::ptrdiff_t distance = 0;
    std::ptrdiff_t& side = strides_bytes[d] < 0 ? reach.begin : reach.end;
    if (__builtin_mul_overflow(extent[d] - 1, strides_bytes[d], &distance) ||
        __builtin_add_overflow(side, distance, &side)) {
      throw UsageError("the strides of a box reach further than memory does");
    }
  }
  return reach;
}

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

namespace {

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

}  // namespace reprieve::state
