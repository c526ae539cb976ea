// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Arithmetic of boxes in n-dimensional arrays: blocks, intersections, contiguous runs, strided memory. Pure.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "state/staging.hpp"
#include "state/strided.hpp"

namespace reprieve::storage {

/// How far behind the first byte of an array in C order those of a box begin, if they lie side by side there. Takes no
/// memory.
[[nodiscard]] std::optional<std::uint64_t> dense_position(std::span<const std::uint64_t> shape,
                                                          std::span<const std::uint64_t> offset,
                                                          std::span<const std::uint64_t> extent,
                                                          std::size_t element_size);

using state::BlockSplit;
using state::Box;
using state::checked_bytes;
using state::copy_box;
using state::dense_strides;
using state::is_dense;
using state::kMaxBlockBytes;
using state::Strides;
using state::sum_of;
using state::volume;
using state::whole;
using state::zero_box;

/// In a file that is written over, a rank may leave ranges of so many bytes as they lie
/// (storage/write/write_item.hpp): those that it fills alone. They begin at multiples of this in the file. Nobody
/// else may write into them.
inline constexpr std::uint64_t kRangeBytes = std::uint64_t{64} << 10U;

[[nodiscard]] inline Extents to_extents(std::span<const std::uint64_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

/// A box that lies in memory; `data` is its first element.
template <class Byte>
struct BoxView {
  Byte* data = nullptr;
  Box box;
  Strides strides_bytes;
  MemorySpace* space = nullptr;  ///< of the device where it lies; null: the host
};

/// Copies elements that lie at @p from, as those of the view do, in its memory space, to the host.
void copy_from(const BoxView<const std::byte>& view, const std::byte* from, const Extents& extent,
               std::size_t element_size, std::byte* to, const Strides& to_strides, state::Staging& staging);
/// The same in the other direction.
void copy_into(const BoxView<std::byte>& view, std::byte* to, const Extents& extent, std::size_t element_size,
               const std::byte* from, const Strides& from_strides, state::Staging& staging);

template <class Byte>
[[nodiscard]] std::vector<Box> boxes_of(const std::vector<BoxView<Byte>>& views) {
  std::vector<Box> boxes;
  boxes.reserve(views.size());
  for (const auto& view : views) {
    boxes.push_back(view.box);
  }
  return boxes;
}

/// What the elements of @p box take.
[[nodiscard]] inline std::size_t bytes_of(const Box& box, std::size_t element_size) {
  return static_cast<std::size_t>(volume(box.extent)) * element_size;
}

/// "[0:512, 0:64]"; "[]" for a scalar.
[[nodiscard]] std::string text_of(const Box& box);

/// The part that both boxes have; its volume is 0 (and its content meaningless) if there is none.
[[nodiscard]] Box intersection(const Box& a, const Box& b);

/// Distance in bytes from the first element of @p box to the element at the global index @p index.
[[nodiscard]] std::ptrdiff_t displacement(const Box& box, const Strides& strides_bytes, const Extents& index);

/// Calls @p visit(first, count) for every range of elements of @p box that lie side by side in an array of @p shape, in
/// C order; `first` is the element's position in the array.
void for_each_run(const Box& box, const Extents& shape,
                  const std::function<void(std::uint64_t first, std::uint64_t count)>& visit);

/// Elements of each of those ranges; 0 if the box is empty.
[[nodiscard]] std::uint64_t run_length(const Box& box, const Extents& shape);

/// The boxes that hold the @p count elements of an array from position @p first on, one after the other in C order: at
/// most two for each dimension, less one. Each is given with whole dimensions after its first that is longer than 1.
[[nodiscard]] std::vector<Box> boxes_of_range(const Extents& shape, std::uint64_t first, std::uint64_t count);

/// Two boxes that have elements in common, as indexes into @p boxes, if there are any. Boxes may be of any arrangement;
/// for chunkings the cost is about n log n.
[[nodiscard]] std::vector<std::size_t> find_overlap(const std::vector<Box>& boxes);

/// Finds the boxes of an array that meet another one. They are sorted by their begin in one dimension, the one with the
/// most different begins. A search checks only those that begin early enough there, and end late enough.
class BoxSearch {
 public:
  explicit BoxSearch(std::vector<Box> boxes);

  /// Indexes of the boxes that have elements in common with @p wanted, ascending.
  [[nodiscard]] std::vector<std::size_t> intersecting(const Box& wanted) const;

 private:
  std::vector<Box> boxes_;
  std::size_t dimension_ = 0;
  std::vector<std::size_t> order_;       ///< of the boxes, by their begin
  std::vector<std::uint64_t> last_end_;  ///< the greatest end of each box in that order and of those before it
};

}  // namespace reprieve::storage
