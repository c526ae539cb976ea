// SPDX-License-Identifier: BSD-3-Clause
// Distributed arrays in memory that is found again at every save and restore.

#include "reprieve/memory.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "reprieve/checkpoint.hpp"
#include "reprieve/error.hpp"
#include "state/registry.hpp"
#include "state/staging.hpp"
#include "state/strided.hpp"

namespace reprieve {

namespace {

std::string product_text(const Extents& extents) { return fmt::format("{}", fmt::join(extents, " x ")); }

/// A box of a distributed array in the memory that a function finds.
class BoxInMemory {
 public:
  BoxInMemory(std::string name, ElementType type, Checkpoint::FindMemory find, DistributedLayout layout)
      : name_(std::move(name)), type_(type), find_(std::move(find)), layout_(std::move(layout)) {
    // What can be wrong whatever the memory is, is an error now.
    state::check_shapes(name_, described(nullptr, layout_.strides_bytes));
  }

  DistributedArray operator()() const {
    const detail::SeenMemory seen = find_();
    if (seen.has_shape) {
      check_view(seen);
      return described(seen.data, seen.strides_bytes);
    }
    const std::uint64_t elements = state::volume(seen.extent);
    check_size(elements);
    if (!layout_.strides_bytes.empty() && state::volume(layout_.extent) > 0) {
      check_reach(elements);
    }
    return described(seen.data + layout_.first_element * type_.size_bytes, layout_.strides_bytes);
  }

 private:
  [[nodiscard]] DistributedArray described(std::byte* data, std::vector<std::ptrdiff_t> strides_bytes) const {
    return {type_, layout_.global_shape, {{data, layout_.offset, layout_.extent, std::move(strides_bytes)}}};
  }

  [[noreturn]] void reject(const std::string& problem) const {
    throw UsageError("distributed variable '" + name_ + "': " + problem);
  }

  void check_view(const detail::SeenMemory& seen) const {
    if (seen.extent != layout_.extent) {
      reject(fmt::format("it was registered with a box of {} elements, but its memory has {} now",
                         product_text(layout_.extent), product_text(seen.extent)));
    }
    if (!layout_.strides_bytes.empty()) {
      reject("its layout has strides, and its memory is a view with strides of its own: leave out one of them");
    }
  }

  void check_size(std::uint64_t elements) const {
    const bool dense = layout_.strides_bytes.empty();
    const std::uint64_t expected = layout_.memory_elements == 0 && dense
                                       ? state::volume(layout_.extent) + layout_.first_element
                                       : layout_.memory_elements;
    if ((expected != 0 || dense) && elements != expected) {
      reject(fmt::format("it was registered with a box of {} elements in memory of {}, but its memory has {} now",
                         product_text(layout_.extent), expected, elements));
    }
  }

  /// Strides may lead anywhere.
  void check_reach(std::uint64_t elements) const {
    const state::Reach reach = state::reach_of(layout_.extent, layout_.strides_bytes, type_.size_bytes);
    const auto first = static_cast<std::ptrdiff_t>(layout_.first_element * type_.size_bytes);
    if (first + reach.begin < 0 || reach.end > static_cast<std::ptrdiff_t>(elements * type_.size_bytes) - first) {
      reject(
          fmt::format("its box of {} elements reaches out of its memory of {} elements, as its strides and its first "
                      "element {} say",
                      product_text(layout_.extent), elements, layout_.first_element));
    }
  }

  std::string name_;
  ElementType type_;
  Checkpoint::FindMemory find_;
  DistributedLayout layout_;
};

}  // namespace

void Checkpoint::add_distributed_memory(std::string name, ElementType type, FindMemory find, DistributedLayout layout) {
  DistributedArray declared{type, layout.global_shape, {{nullptr, layout.offset, layout.extent, {}}}};
  const std::string registered_name = name;
  BoxInMemory box(name, type, std::move(find), std::move(layout));
  add_distributed(std::move(name), std::move(box));
  registry_->variables.at(registered_name).declared = std::make_shared<const DistributedArray>(std::move(declared));
}

void Checkpoint::add_distributed_view(std::string name, FindMemory find, Extents global_shape, Extents offset) {
  add_distributed(
      std::move(name), [find = std::move(find), global_shape = std::move(global_shape), offset = std::move(offset)] {
        const detail::SeenMemory seen = find();
        return DistributedArray{seen.type, global_shape, {{seen.data, offset, seen.extent, seen.strides_bytes}}};
      });
}

void Index::throw_negative(std::int64_t value) {
  throw UsageError("a layout has the negative number " + std::to_string(value) +
                   ": shapes, offsets and extents are counts of elements");
}

namespace {

void check_same_dimensions(const Extents& extent, const Extents& other, const char* other_name) {
  if (extent.size() != other.size()) {
    throw UsageError(fmt::format("the extent {} has {} dimensions, but {} {} has {}", core::list_text(extent),
                                 extent.size(), other_name, core::list_text(other), other.size()));
  }
}

/// Length of one dimension of the padded array.
std::uint64_t padded(const Extents& extent, const Extents& ghost, std::size_t d) { return extent[d] + 2 * ghost[d]; }

}  // namespace

DistributedLayout with_ghost_layers(IndexList global_shape, IndexList offset, IndexList extent, const IndexList& ghost,
                                    std::size_t element_size_bytes) {
  check_same_dimensions(extent, global_shape, "the global shape");
  check_same_dimensions(extent, offset, "the offset");
  check_same_dimensions(extent, ghost, "the number of ghost layers");
  std::vector<std::ptrdiff_t> strides(extent.size());
  std::uint64_t elements = 1;
  for (std::size_t d = extent.size(); d-- > 0;) {
    strides[d] = static_cast<std::ptrdiff_t>(elements * element_size_bytes);
    elements *= padded(extent, ghost, d);
  }
  const std::uint64_t first = first_interior_index(extent, ghost);
  return {std::move(global_shape), std::move(offset), std::move(extent), std::move(strides), elements, first};
}

std::size_t first_interior_index(const IndexList& extent, const IndexList& ghost) {
  check_same_dimensions(extent, ghost, "the number of ghost layers");
  std::uint64_t index = 0;
  for (std::size_t d = 0; d < extent.size(); ++d) {
    index = index * padded(extent, ghost, d) + ghost[d];
  }
  return index;
}

}  // namespace reprieve

namespace reprieve::state {

namespace {

[[noreturn]] void reject(const std::string& name, const std::string& problem) {
  throw UsageError("distributed variable '" + name + "': " + problem);
}

/// Every byte of the array must have an offset that fits a signed 64-bit file offset.
void check_global_shape(const std::string& name, const DistributedArray& array) {
  if (array.global_shape.empty()) {
    reject(name, "the global shape has no dimensions; a scalar is a replicated or a per-rank variable");
  }
  if (array.global_shape.size() > kMostDimensions) {
    reject(name,
           fmt::format("it has {} dimensions; HDF5 allows at most {}", array.global_shape.size(), kMostDimensions));
  }
  if (array.type.size_bytes == 0) {
    reject(name, "the element type has the size 0");
  }
  std::uint64_t bytes = 0;
  if (!checked_bytes(array.global_shape, array.type.size_bytes, bytes)) {
    reject(name, "the global shape " + core::list_text(array.global_shape) + " is larger than 2^63 bytes");
  }
}

void check_strides(const std::string& name, const MemoryBox& box, std::uint32_t element_size) {
  if (box.strides_bytes.empty()) {
    return;
  }
  if (box.strides_bytes.size() != box.extent.size()) {
    reject(name, fmt::format("it has {} strides for {} dimensions", box.strides_bytes.size(), box.extent.size()));
  }
  if (volume(box.extent) == 0) {
    return;  // any will do: libraries have 0 bytes between the columns of a matrix without rows
  }
  for (std::size_t d = 0; d < box.extent.size(); ++d) {
    const std::ptrdiff_t stride = box.strides_bytes[d];
    const bool overlaps = stride > -static_cast<std::ptrdiff_t>(element_size) && stride < std::ptrdiff_t{element_size};
    if (box.extent[d] > 1 && overlaps) {
      reject(name, fmt::format("the stride of {} bytes in dimension {} is smaller than an element of {} bytes", stride,
                               d, element_size));
    }
  }
}

void check_box(const std::string& name, const DistributedArray& array, const MemoryBox& box) {
  const std::size_t dimensions = array.global_shape.size();
  if (box.offset.size() != dimensions || box.extent.size() != dimensions) {
    reject(name,
           fmt::format("the offset {} and the extent {} must have the dimensions of the global shape {}",
                       core::list_text(box.offset), core::list_text(box.extent), core::list_text(array.global_shape)));
  }
  check_strides(name, box, array.type.size_bytes);
  if (std::ranges::find(box.extent, 0U) != box.extent.end()) {
    return;  // Holds nothing, so it does not matter where: uneven splits put such boxes past the end.
  }
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::uint64_t length = array.global_shape[d];
    if (box.extent[d] > length || box.offset[d] > length - box.extent[d]) {
      reject(name,
             fmt::format("the box at {} of extent {} is not inside of the global shape {}", core::list_text(box.offset),
                         core::list_text(box.extent), core::list_text(array.global_shape)));
    }
  }
}

/// Refuses an address that is null or not the program's any more. It cannot see that an address belongs to something
/// else by now.
void check_memory(const std::string& name, MemoryBox& box, std::uint32_t element_size, const devices::Spaces& spaces,
                  MemorySpace* named) {
  if (volume(box.extent) == 0) {
    return;
  }
  if (box.data == nullptr) {
    reject(name, "the data pointer is null, but the extent is " + core::list_text(box.extent));
  }
  try {
    box.space = space_of(spaces, box.data, box.extent, box.strides_bytes, element_size, box.space ? box.space : named);
  } catch (const UsageError& error) {
    reject(name, error.what());
  } catch (const StorageError& error) {
    throw StorageError(error.code(), "distributed variable '" + name + "': " + error.what());
  }
  if (box.space != nullptr) {
    return;
  }
  const Strides strides = box.strides_bytes.empty() ? dense_strides(box.extent, element_size) : box.strides_bytes;
  const Reach reach = reach_of(box.extent, strides, element_size);
  if (!spaces.is_mapped(box.data + reach.begin, static_cast<std::size_t>(reach.end - reach.begin))) {
    reject(name, std::string("the memory of its box ") + core::list_text(box.extent) +
                     " is not the program's, or no longer: it was freed or moved after it was registered. Register a "
                     "std::vector itself, or a function that returns where the memory is");
  }
}

}  // namespace

void check_shapes(const std::string& name, const DistributedArray& array) {
  check_global_shape(name, array);
  for (const MemoryBox& box : array.boxes) {
    check_box(name, array, box);
  }
}

void check_array(const std::string& name, DistributedArray& array, const devices::Spaces& spaces, MemorySpace* named) {
  check_shapes(name, array);
  for (MemoryBox& box : array.boxes) {
    check_memory(name, box, array.type.size_bytes, spaces, named);
  }
}

}  // namespace reprieve::state
