// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the ranks have to write: described by each, sent to rank 0, gathered there.

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "state/registry.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/blocks.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// Of texts that the file may hold as an array of texts of one length.
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

/// Runs it for all variables, and throws the first error at the end: a function that describes one may be collective
/// (as that of reprieve.dolfinx is), and the other ranks wait in it.
template <class Variables, class Run>
void run_for_all(Variables& variables, const Run& run) {
  std::exception_ptr first;
  for (auto& variable : variables) {
    try {
      run(variable);
    } catch (...) {
      first = first ? first : std::current_exception();
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

/// This rank's variables in the order of their names. The views are valid until the values change.
/// @throws UsageError if a layout is not allowed, and what the user's describe functions and serializers throw
[[nodiscard]] std::vector<LocalVariable> collect_variables(const Checkpoint::Registry& registry);

/// Of these, the replicated ones that are no objects: no serializer of the user's is called.
[[nodiscard]] std::vector<LocalVariable> collect_replicated(const Checkpoint::Registry& registry);

/// The space to ask for the memory that @p value gives; null if there is none, or if the value asks it.
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

/// What is said of a variable before anything is known of its memory.
/// @throws UsageError if its name, or a text about it, is not valid UTF-8
[[nodiscard]] Description describe_registration(const std::string& name, const state::Variable& variable);

/// Whether a text can stand in a manifest, which is JSON.
[[nodiscard]] bool is_utf8(const std::string& text);

/// A rank's message to rank 0 about its variables, in two parts. The facts are equal on all ranks that registered the
/// same, so a digest of them is enough. The numbers are a rank's own.
struct DescriptionMessage {
  Bytes facts{};    ///< names, kinds, types, annotations, global shapes, numbers of dimensions
  Bytes numbers{};  ///< boxes, shapes of per-rank values, lengths of texts
};

[[nodiscard]] DescriptionMessage encode_descriptions(std::span<const Description> descriptions);
[[nodiscard]] DescriptionMessage encode_descriptions(std::span<const LocalVariable> variables);
/// @throws Error (internal) if a part is cut short
[[nodiscard]] std::vector<Description> decode_descriptions(std::span<const std::byte> facts,
                                                           std::span<const std::byte> numbers);

/// One variable of all ranks, as rank 0 knows it: what is equal on all of them once, and the numbers of every rank as
/// nothing but numbers, since there may be very many of them.
struct GatheredVariable {
  Description of_rank_0{};
  std::vector<std::uint64_t> numbers{};  ///< of one rank after the other, see take_numbers in description.cpp

  /// Calls @p visit(rank, offset, extent) for each box of a distributed variable.
  template <class Visit>
  void for_each_box(Visit&& visit) const {
    const std::size_t dimensions = of_rank_0.shape.size();
    std::size_t rank = 0;
    for (std::span<const std::uint64_t> rest(numbers); !rest.empty(); ++rank) {
      const std::uint64_t count = rest.front();
      rest = rest.subspan(1);
      for (std::uint64_t box = 0; box < count; ++box) {
        visit(rank, rest.first(dimensions), rest.subspan(dimensions, dimensions));
        rest = rest.subspan(2 * dimensions);
      }
    }
  }

  [[nodiscard]] std::vector<Box> boxes() const;
};

struct Gathered {
  std::size_t ranks = 0;
  std::vector<GatheredVariable> variables{};  ///< sorted by name
};

/// @param of_rank_0  its own descriptions; all ranks have the same facts
/// @param messages  of each rank: only the numbers are read
/// @throws Error (internal) if a message is cut short
[[nodiscard]] Gathered gather_numbers(std::vector<Description> of_rank_0, std::vector<DescriptionMessage> messages);

// Texts of many lengths as an array of texts of one length, padded with null bytes, as every HDF5 program reads them:
// a list of texts, or the text of each rank. The shape of such an array and the length of its elements are found by
// rank 0, who knows the texts of all ranks. Where an array would waste too much room, or a text ends with a null
// byte, they are stored as they are in memory.

/// Rank 0: makes arrays of the texts of all ranks, where that is possible: their types and shapes. It then drops the
/// lengths of texts.
void arrange_texts(Gathered& all);

/// The same for this rank's texts, with the length that rank 0 found.
void pad_texts(LocalVariable& variable, std::uint64_t length);

/// Whether a variable is stored as such an array: its elements are texts of more than one byte.
[[nodiscard]] bool is_text_array(const StoredVariable& variable);

/// Of such an array: whether each rank has a list, and not one text.
[[nodiscard]] bool is_list_of_texts(const StoredVariable& variable);

/// The type that the value had in memory.
[[nodiscard]] ElementType type_in_memory(const StoredVariable& variable);

/// The bytes that the value had in memory, from those that are stored for it.
[[nodiscard]] Bytes unpadded_texts(const StoredVariable& variable, std::span<const std::byte> stored);

}  // namespace reprieve::storage
