// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Distributed variables whose boxes may overlap. The array in the file has every element once, from its owner: the
/// first box that holds it, in the order of ranks and of each rank's boxes. What the other boxes hold there are copies.
/// They are kept beside the array, in two per-rank variables: the copies' values, and the boxes of each rank.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "storage/format/blocks.hpp"
#include "storage/format/description.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// The names of the two variables beside a shared one; see state::check_registered_name.
[[nodiscard]] std::string copies_name(const std::string& name);
[[nodiscard]] std::string boxes_name(const std::string& name);

/// Boxes as the second of them holds them: of each its offset, then its extent, in numbers of this type.
[[nodiscard]] Bytes words_of(const std::vector<Box>& boxes);
inline constexpr ElementType kBoxWord{ElementClass::unsigned_integer, sizeof(std::uint64_t)};

/// What is left of @p box without @p others, cut into boxes: for the same arguments always the same ones.
[[nodiscard]] std::vector<Box> without(const Box& box, std::span<const Box> others);

/// Of each box, in the order of all ranks, the parts that it owns. They do not overlap, and cover what the boxes cover.
[[nodiscard]] std::vector<std::vector<Box>> owned_parts(const std::vector<Box>& boxes);

/// A part of a rank's box that belongs to another box.
struct Copy {
  std::size_t box = 0;
  Box part{};
};
/// All of them, in the order in which their values are stored. @param owned  the parts that the rank's boxes own
[[nodiscard]] std::vector<Copy> copies_of(const std::vector<Box>& boxes, std::span<const Box> owned);

/// The two variables beside each shared one as this rank has them, put where they belong in the order of names; the
/// values come with `split_shared`.
void add_copies(std::vector<LocalVariable>& variables);

/// Rank 0: cuts boxes that may overlap, and sets the shapes of the variables beside them. Returns the parts of each
/// box, in the order of ranks; nothing for the variables that are not shared.
using PartsOfBoxes = std::vector<std::vector<Box>>;
[[nodiscard]] std::vector<PartsOfBoxes> part_shared(Gathered& all);

/// From now on the variable at @p shared is what this rank owns of it, and the one beside it has the rest.
void split_shared(std::vector<LocalVariable>& variables, std::size_t shared, std::span<const Box> owned);

/// The parts of the array that a rank wrote, in their order.
[[nodiscard]] std::vector<Box> parts_written_by(const FileIndex& index, const StoredVariable& variable,
                                                std::uint64_t rank);

}  // namespace reprieve::storage
