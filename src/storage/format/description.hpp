// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What one rank has to write.

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "state/registry.hpp"
#include "storage/bytes/codec.hpp"
#include "storage/format/blocks.hpp"
#include "storage/format/variable_facts.hpp"

namespace reprieve::storage {

/// Of texts that the file may hold as an array of texts of one length (texts.hpp).
struct TextLengths {
  std::uint64_t count = 0;
  std::uint64_t longest = 0;  ///< in bytes
};

/// One variable as one rank sees it. Its shape, if it is distributed, is the global one; otherwise that of this rank's
/// value.
struct Description : VariableFacts {
  std::vector<Box> boxes{};  ///< distributed: this rank's boxes, without empty ones
  std::optional<TextLengths> texts{};
};

/// One variable with this rank's memory.
struct LocalVariable {
  Description description;
  /// Distributed: one view per box of the description. Otherwise the value, as one dense box.
  std::vector<BoxView<const std::byte>> views;
  Bytes content{};  ///< of what is not registered: the views refer to it
};

/// This rank's variables in the order of their names. The views are valid until the values change.
/// @throws UsageError if a layout is not allowed, and what the user's describe functions and serializers throw
[[nodiscard]] std::vector<LocalVariable> collect_variables(const Checkpoint::Registry& registry);

/// The space that is to be asked for the memory that @p value gives; null if there is none, or if the value asks it.
[[nodiscard]] MemorySpace* space_to_check(ValueAccess& value, MemorySpace* named);

/// The space of the memory of a value; null if the host reaches it. @param named  that was set for it, or null
/// @throws UsageError, with the name, if a part of it is none of this process; StorageError if the device fails
[[nodiscard]] MemorySpace* check_value_memory(const std::string& name, std::span<const std::byte> memory,
                                              const devices::Spaces& spaces, MemorySpace* named);

/// The view of one box of a distributed array, with its strides written out.
template <class Byte>
[[nodiscard]] BoxView<Byte> view_of(MemoryBox box, std::size_t element_size) {
  if (box.strides_bytes.empty()) {
    box.strides_bytes = dense_strides(box.extent, element_size);
  }
  return {box.data, {std::move(box.offset), std::move(box.extent)}, std::move(box.strides_bytes), box.space};
}

/// Throws UsageError if the name of a variable, or a text about it, is not valid UTF-8.
void check_texts(const std::string& name, const Annotation& annotation);
void check_member_names(const std::string& name, const Members& members);

}  // namespace reprieve::storage
