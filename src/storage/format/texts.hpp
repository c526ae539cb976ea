// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Texts of many lengths as an array of texts of one length, padded with null bytes, as every HDF5 program reads them:
/// a list of texts, or the text of each rank. The shape of such an array and the length of its elements are found by
/// the chief, who knows the texts of all ranks. Where an array would waste too much room, or a text ends with a null
/// byte, they are stored as they are in memory.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/format/description.hpp"
#include "storage/format/file_index.hpp"
#include "storage/format/gathered.hpp"

namespace reprieve::storage {

/// Whether a value is a text, or a list of texts, of which an array may be made.
[[nodiscard]] bool may_be_texts(const state::Variable& variable);

/// What an array of the texts of a value would need. Nothing for values that are no texts, or that no array can hold.
[[nodiscard]] std::optional<TextLengths> lengths_of(const state::Variable& variable, std::span<const std::byte> bytes);

/// Chief: makes arrays of the texts of all ranks, where that is possible: their types and shapes. What it knew of the
/// lengths of texts is no longer needed, and gone.
void arrange_texts(Gathered& all);

/// The same for this rank's texts, with the length that the chief found.
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
