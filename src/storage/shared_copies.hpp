#pragma once

/// @file
/// Distributed variables whose boxes may overlap. The array in the file has every element once, from its owner: the
/// first box that holds it, in the order of ranks and of each rank's boxes. What the other boxes hold there are copies.
/// They are kept beside the array, in two per-rank variables: the copies' values, and the boxes of each rank.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "storage/blocks.hpp"
#include "storage/description.hpp"
#include "storage/stored_checkpoint.hpp"

namespace reprieve::storage {

/// The names of the two variables beside a shared one; see state::check_registered_name.
[[nodiscard]] std::string copies_name(const std::string& name);
[[nodiscard]] std::string boxes_name(const std::string& name);

/// What is left of @p box without @p others, cut into boxes: for the same arguments always the same ones.
[[nodiscard]] std::vector<Box> without(const Box& box, std::span<const Box> others);

/// Of each box, in the order of all ranks, the parts that it owns. They do not overlap, and cover what the boxes cover.
[[nodiscard]] std::vector<std::vector<Box>> owned_parts(const std::vector<Box>& boxes);

/// A part of a rank's box that belongs to another box.
struct Copy {
  std::size_t box;
  Box place;
};
/// All of them, in the order in which their values are stored. @param owned  the parts that the rank's boxes own
[[nodiscard]] std::vector<Copy> copies_of(const std::vector<Box>& boxes, std::span<const Box> owned);

/// The two variables beside each shared one as this rank has them, put where they belong in the order of names; the
/// values come with `split_shared`.
void add_copies(std::vector<LocalVariable>& variables);

/// Chief: parts boxes that may overlap, and tells the variables beside them their shapes. Returns the parts of each
/// box, in the order of ranks; nothing for the variables that are not shared.
using PartsOfBoxes = std::vector<std::vector<Box>>;
[[nodiscard]] std::vector<PartsOfBoxes> part_shared(std::vector<std::vector<Description>>& by_rank);

/// From now on the variable at @p shared is what this rank owns of it, and the one beside it has the rest.
void split_shared(std::vector<LocalVariable>& variables, std::size_t shared, std::span<const Box> owned);

/// Whether the file has copies of a variable, saved by as many ranks as there are now.
[[nodiscard]] bool has_copies(const FileIndex& index, const StoredVariable& variable, int ranks);

/// Whether this rank had these boxes, in this order, when the file was written. @throws CorruptError, StorageError
[[nodiscard]] bool had_these_boxes(const StoredCheckpoint& stored, const StoredVariable& variable,
                                   const DistributedArray& array, int rank);

/// The parts of the array that a rank wrote, in their order.
[[nodiscard]] std::vector<Box> parts_written_by(const FileIndex& index, const StoredVariable& variable,
                                                std::uint64_t rank);

/// Puts this rank's own copies into its boxes, which are those that it had. @throws CorruptError, StorageError
void restore_copies(const StoredCheckpoint& stored, const StoredVariable& variable, const DistributedArray& array,
                    int rank);

}  // namespace reprieve::storage
