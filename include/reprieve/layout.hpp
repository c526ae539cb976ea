// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Where the elements of arrays lie: in the global array, and in the memory of one rank.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprieve/element_type.hpp"
#include "reprieve/export.h"

namespace reprieve {

class MemorySpace;

/// Numbers of elements per dimension, slowest-varying first (C order).
using Extents = std::vector<std::uint64_t>;

/// One number of an IndexList.
class Index {
 public:
  /// @throws UsageError if it is negative
  template <class I>
  requires(std::integral<I> || (std::is_enum_v<I> && std::is_convertible_v<I, std::int64_t>)) constexpr Index(I value)
      : value_(static_cast<std::uint64_t>(value)) {  // NOLINT(google-explicit-constructor)
    if constexpr (!std::unsigned_integral<I>) {
      if (static_cast<std::int64_t>(value) < 0) {
        throw_negative(static_cast<std::int64_t>(value));
      }
    }
  }
  constexpr operator std::uint64_t() const noexcept { return value_; }  // NOLINT(google-explicit-constructor)

 private:
  [[noreturn]] REPRIEVE_EXPORT static void throw_negative(std::int64_t value);

  std::uint64_t value_;
};

/// Extents that can be written as a list of any integers: `{nx, 3}` with an int nx.
class IndexList : public Extents {
 public:
  IndexList() = default;
  IndexList(std::initializer_list<Index> numbers) : Extents(numbers.begin(), numbers.end()) {}
  IndexList(Extents extents) : Extents(std::move(extents)) {}  // NOLINT(google-explicit-constructor)
};

/// Where this rank's part of a distributed array lies, in the global array and in memory.
struct DistributedLayout {
  IndexList global_shape;  ///< shape of the whole array; the same on all ranks
  IndexList offset;        ///< first global index of this rank's box
  IndexList extent;        ///< size of this rank's box; a zero means that this rank holds nothing

  /// Distance in bytes between neighbours in memory, per dimension. Empty: the box is dense, in C order.
  std::vector<std::ptrdiff_t> strides_bytes = {};

  /// For memory that is registered as a whole (a std::vector, say, and not a pointer to the first element of the box):
  /// how many elements it has, and which of them is the first of the box. 0: as many as the box.
  std::uint64_t memory_elements = 0;
  std::uint64_t first_element = 0;
};

/// The layout of a box that lies in memory with `ghost` extra layers on each side of each dimension, in C order. It is
/// registered with the whole padded array, as a std::vector; or with a pointer to the first *interior* element,
/// `padded + first_interior_index(extent, ghost)`.
/// @param ghost  layers per dimension, the same on both sides
/// @param element_size_bytes  size of one element
/// @throws UsageError if the dimensions differ in number
REPRIEVE_EXPORT DistributedLayout with_ghost_layers(IndexList global_shape, IndexList offset, IndexList extent,
                                                    const IndexList& ghost, std::size_t element_size_bytes);

/// Index (in elements) of the first interior element in an array padded with `ghost` layers, in C order.
REPRIEVE_EXPORT std::size_t first_interior_index(const IndexList& extent, const IndexList& ghost);

/// One box of a distributed array in this rank's memory.
struct MemoryBox {
  std::byte* data = nullptr;                       ///< first element of the box
  Extents offset;                                  ///< first global index
  Extents extent;                                  ///< size of the box
  std::vector<std::ptrdiff_t> strides_bytes = {};  ///< see DistributedLayout
  /// Of memory on a device: whose it is, and it must live as long as the checkpoint. Null: found by its address.
  MemorySpace* space = nullptr;
};

/// This rank's share of a distributed array: any number of boxes.
struct DistributedArray {
  ElementType type;
  Extents global_shape;
  std::vector<MemoryBox> boxes;
};

/// Memory of the program's own in any number of dimensions, dense or not: a part of a larger array, one member of many
/// structs, every second element. A view: it is kept by value, the memory must outlive the Checkpoint.
template <Element T>
struct StridedView {
  T* data = nullptr;                               ///< first element
  Extents extent;                                  ///< elements per dimension, slowest-varying first
  std::vector<std::ptrdiff_t> strides_bytes = {};  ///< see DistributedLayout
};

/// One member of every struct of an array, as an array: the positions of particles, say. A member that is itself an
/// array gives one more dimension.
template <class Struct, class Member>
requires(std::is_standard_layout_v<Struct>) auto member_view(std::span<Struct> structs, Member Struct::*member) {
  const auto stride = static_cast<std::ptrdiff_t>(sizeof(Struct));
  if constexpr (std::is_array_v<Member>) {
    using T = std::remove_extent_t<Member>;
    T* const first = structs.empty() ? nullptr : &(structs.front().*member)[0];
    return StridedView<T>{
        first, {structs.size(), std::extent_v<Member>}, {stride, static_cast<std::ptrdiff_t>(sizeof(T))}};
  } else {
    Member* const first = structs.empty() ? nullptr : &(structs.front().*member);
    return StridedView<Member>{first, {structs.size()}, {stride}};
  }
}

/// What std::mdspan of C++23 offers, and its reference implementation: `data_handle`, `rank`, `extent`, `stride`.
template <class M>
concept MdspanLike = Element<typename M::element_type> && requires(const M& view) {
  { view.data_handle() } -> std::convertible_to<typename M::element_type*>;
  { M::rank() } -> std::convertible_to<std::size_t>;
  { view.extent(0) } -> std::convertible_to<std::uint64_t>;
  { view.stride(0) } -> std::convertible_to<std::ptrdiff_t>;
};

/// The memory of an mdspan. Of matrices and views of other libraries: reprieve/eigen.hpp, reprieve/kokkos.hpp.
template <MdspanLike M>
StridedView<typename M::element_type> strided_view(const M& view) {
  StridedView<typename M::element_type> strided{view.data_handle(), {}, {}};
  for (std::size_t d = 0; d < M::rank(); ++d) {
    strided.extent.push_back(static_cast<std::uint64_t>(view.extent(d)));
    strided.strides_bytes.push_back(static_cast<std::ptrdiff_t>(view.stride(d)) *
                                    static_cast<std::ptrdiff_t>(sizeof(typename M::element_type)));
  }
  return strided;
}

}  // namespace reprieve
