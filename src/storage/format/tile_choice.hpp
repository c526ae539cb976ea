// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Whether an array is stored in tiles, and of which shape. Pure.

#include <cstddef>
#include <span>

#include "storage/format/blocks.hpp"

namespace reprieve::storage {

/// The tiles for an array that the ranks hold in these boxes; empty if it is stored in rows, as it is where the boxes
/// have long rows, where the array is small, and where tiles would bring nothing.
///
/// Where the cut is regular, a tile is the greatest of which all boxes are made. Otherwise it is so small that a box
/// holds most of its tiles whole: what borders cut must be brought together by the ranks.
/// @param boxes  of all ranks; empty ones count for nothing
/// Cost: linear in the number of boxes.
[[nodiscard]] Extents choose_tile(const Extents& shape, std::size_t element_size, std::span<const Box> boxes);

}  // namespace reprieve::storage
