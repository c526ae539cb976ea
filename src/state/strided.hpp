// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Arithmetic of n-dimensional arrays in memory: sizes, strides, copies; boxes, cut into blocks. Pure.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <tuple>
#include <vector>

#include "reprieve/layout.hpp"

namespace reprieve::state {

using Strides = std::vector<std::ptrdiff_t>;

/// Number of elements; 1 for a scalar.
[[nodiscard]] std::uint64_t volume(std::span<const std::uint64_t> extent);

/// Product of the extents and @p element_size. False if it does not fit into a signed 64-bit file offset.
[[nodiscard]] bool checked_bytes(std::span<const std::uint64_t> extent, std::uint64_t element_size,
                                 std::uint64_t& bytes);

/// The sum of what @p number_of says of each item.
template <class Items, class NumberOf>
[[nodiscard]] std::uint64_t sum_of(const Items& items, const NumberOf& number_of) {
  std::uint64_t sum = 0;
  for (const auto& item : items) {
    sum += std::invoke(number_of, item);
  }
  return sum;
}

/// The strides of elements that lie side by side in C order.
[[nodiscard]] Strides dense_strides(const Extents& extent, std::size_t element_size);

/// True if the elements of a box of @p extent lie side by side in C order.
[[nodiscard]] bool is_dense(const Extents& extent, const Strides& strides_bytes, std::size_t element_size);

/// Which bytes a box takes, counted from its first element: [begin, end). Negative strides reach back.
struct Reach {
  std::ptrdiff_t begin = 0;
  std::ptrdiff_t end = 0;
};
/// @throws UsageError if that is more than an address can hold
[[nodiscard]] Reach reach_of(const Extents& extent, const Strides& strides_bytes, std::size_t element_size);

/// How many leading dimensions must be stepped through, when those after them are dense in memory.
[[nodiscard]] std::size_t outer_dimensions(const Extents& extent, const Strides& strides, std::size_t element_size);

/// What the dimensions from @p outer on take together, if they are dense.
[[nodiscard]] std::size_t inner_bytes(const Extents& extent, std::size_t outer, std::size_t element_size);

/// Steps @p index through the first @p dimensions dimensions of @p extent, in C order. False after the last.
[[nodiscard]] bool next_index(Extents& index, const Extents& extent, std::size_t dimensions);

/// Distance in bytes of the element at @p index, as far as the first @p dimensions dimensions count.
[[nodiscard]] std::ptrdiff_t distance(const Extents& index, const Strides& strides, std::size_t dimensions);

/// Copies the elements of a box between two buffers with strides of their own.
void copy_box(std::byte* to, const Strides& to_strides, const std::byte* from, const Strides& from_strides,
              const Extents& extent, std::size_t element_size);

/// Sets the elements of a box to zero bytes.
void zero_box(std::byte* to, const Strides& strides, const Extents& extent, std::size_t element_size);

/// A box of array elements. A scalar is the box without dimensions, which holds one element.
struct Box {
  Extents offset;
  Extents extent;

  friend bool operator==(const Box&, const Box&) = default;
};
constexpr auto fields_of(const Box*) { return std::tuple(&Box::offset, &Box::extent); }

/// The box that starts at zero.
[[nodiscard]] Box whole(const Extents& shape);

/// Checksums cover blocks of at most so many bytes, and that much is buffered when data are written or read.
inline constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{4} << 20;

/// A box cut into blocks, in C order: whole trailing dimensions, a range of one dimension, single indexes of those
/// before it. The range is as long as `max_bytes` allows (at least one element).
class BlockSplit {
 public:
  BlockSplit(Box box, std::size_t element_size, std::uint64_t max_bytes = kMaxBlockBytes);

  /// 0 if the box is empty.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] Box block(std::uint64_t index) const;

 private:
  Box box_;
  std::size_t cut_dimension_ = 0;  ///< a block takes a range of this dimension
  std::uint64_t cut_length_ = 1;   ///< length of that range; the last one may be shorter
  std::uint64_t cuts_ = 1;         ///< ranges in that dimension
  std::uint64_t count_ = 0;
};

}  // namespace reprieve::state
