#pragma once

/// @file
/// What one rank has to write, and what it tells the chief about that.

#include <span>
#include <string>
#include <vector>

#include "state/registry.hpp"
#include "storage/blocks.hpp"
#include "storage/codec.hpp"

namespace reprieve::storage {

/// One variable as one rank sees it.
struct Description {
  std::string name;
  state::Distribution distribution = state::Distribution::replicated;
  ElementType type;
  Extents shape;           ///< distributed: the global shape; otherwise that of this rank's value
  std::vector<Box> boxes;  ///< distributed: this rank's boxes, without empty ones
};

/// One variable with this rank's memory.
struct LocalVariable {
  Description description;
  /// Distributed: one view per box of the description. Otherwise the value, as one dense box.
  std::vector<BoxView<const std::byte>> views;
};

/// This rank's variables in the order of their names. The views are valid until the values change.
/// @throws UsageError if a layout is not allowed, and what the user's describe functions and serializers throw
[[nodiscard]] std::vector<LocalVariable> collect_variables(const Checkpoint::Registry& registry);

/// The view of one box of a distributed array, with its strides written out.
template <class Byte>
[[nodiscard]] BoxView<Byte> view_of(const MemoryBox& box, std::size_t element_size) {
  return {box.data,
          {box.offset, box.extent},
          box.strides_bytes.empty() ? dense_strides(box.extent, element_size) : box.strides_bytes};
}

[[nodiscard]] Bytes encode_descriptions(std::span<const LocalVariable> variables);
[[nodiscard]] std::vector<Description> decode_descriptions(std::span<const std::byte> message);

}  // namespace reprieve::storage
