// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Datasets as they lie in the file, and the bytes of their blocks. Local: no MPI, no HDF5, safe on any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/blocks.hpp"

namespace reprieve::storage {

/// Where the elements of a dataset lie in the file.
struct Dataset {
  std::uint64_t file_offset = 0;
  Extents shape;
  std::size_t element_size = 1;
  Extents tile{};  ///< empty: in C order as a whole; else the shape of its tiles
};
constexpr auto fields_of(const Dataset*) {
  return std::tuple(&Dataset::file_offset, &Dataset::shape, &Dataset::element_size, &Dataset::tile);
}

/// Where the bytes of a block begin in the file, if all lie side by side there. The block is as for `read_block`.
[[nodiscard]] std::optional<std::uint64_t> offset_if_dense(const Dataset& dataset, const Box& block);

/// From where bytes are read: the page cache may be asked, or not.
enum class ReadFrom : std::uint8_t { cache, device };

/// Reads the elements of @p block, which lies in one tile if there are tiles, to lie side by side in @p content. With
/// @p digest, adds them to it on the way.
void read_block(const PosixFile& file, const Dataset& dataset, const Box& block, std::span<std::byte> content,
                Xxh3Stream* digest = nullptr, ReadFrom from = ReadFrom::cache);

// Arrays that lie in a file as tiles: pieces of one shape, one after the other in C order, each in C order by itself
// (HDF5's chunks). Tiles at the far edges of the array are stored whole, with padding. An array without tiles is one
// tile of its own shape. Pure.

/// No tile is smaller: what is known of each takes memory in a reader.
inline constexpr std::uint64_t kSmallestTileBytes = 4096;
/// Tiles of less are not worth a write of their own.
inline constexpr std::uint64_t kLeastTileBytes = std::uint64_t{256} << 10U;

/// What of a box lies in one tile.
struct TilePart {
  Dataset dataset;  ///< the tile, as a dataset by itself
  Box box;          ///< in the array
  Box within;       ///< in the tile
  /// The part is all that the array has in this tile: who writes it may write the padding too.
  bool is_all = false;
};

/// The parts of @p box, tile by tile in C order; none if it is empty.
[[nodiscard]] std::vector<TilePart> tile_parts(const Dataset& dataset, const Box& box);

/// How many parts a box has in such tiles: without memory for each.
/// @param tile  empty: no tiles; @param offset, extent  of the box
[[nodiscard]] std::uint64_t tile_count(const Extents& tile, std::span<const std::uint64_t> offset,
                                       std::span<const std::uint64_t> extent);

/// True if a box of an array of @p shape is made of whole tiles, as far as the array goes.
[[nodiscard]] bool is_whole_tiles(const Extents& shape, const Extents& tile, std::span<const std::uint64_t> offset,
                                  std::span<const std::uint64_t> extent);

/// Of a box that lies in one tile.
[[nodiscard]] TilePart tile_part(const Dataset& dataset, const Box& box);

/// What the tiles take in the file, with their padding. False if that does not fit into a signed 64-bit file offset.
/// @param tile  as many dimensions as @p shape, none of them 0; or empty: no tiles
[[nodiscard]] bool stored_bytes(const Extents& shape, const Extents& tile, std::uint64_t element_size,
                                std::uint64_t& bytes);

/// Of a dataset that is known to fit.
[[nodiscard]] std::uint64_t stored_bytes(const Dataset& dataset);

/// Whether HDF5 has chunks of this shape in an array without an index of them, and a file may have such tiles.
/// @param tile  not empty
[[nodiscard]] bool is_possible_tile(const Extents& shape, const Extents& tile, std::uint64_t element_size);

/// A box cut into blocks: what of it lies in each tile by itself, in the order of the tiles. Takes memory for tiles
/// that are larger than a block alone.
class TiledSplit {
 public:
  TiledSplit(const Dataset& dataset, const Box& box);

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// In the array.
  [[nodiscard]] Box block(std::uint64_t index) const;
  /// The numbers of the blocks that can have elements in common with another box, ascending.
  [[nodiscard]] std::vector<std::uint64_t> meeting(const Box& wanted) const;

 private:
  struct Part {
    Box box;
    BlockSplit split;
    std::uint64_t first = 0;  ///< number of its first block
  };
  [[nodiscard]] std::vector<std::uint64_t> tiles_meeting(const Box& common) const;

  Dataset dataset_;
  Box box_;
  bool one_for_each_tile_ = false;  ///< a block is what of the box lies in a tile
  Extents first_tile_;              ///< then, in each dimension
  Extents tiles_;                   ///< then, how many in each dimension
  std::vector<Part> parts_;         ///< otherwise
  std::uint64_t count_ = 0;
};

// Whether an array is stored in tiles, and of which shape. Pure.

/// The tiles for an array that the ranks hold in these boxes; empty if it is stored in rows, as it is where the boxes
/// have long rows, where the array is small, and where tiles would bring nothing.
///
/// Where the cut is regular, a tile is the greatest of which all boxes are made. Otherwise it is so small that a box
/// holds most of its tiles whole: what borders cut must be brought together by the ranks.
/// @param boxes  of all ranks; empty ones count for nothing
/// Cost: linear in the number of boxes.
[[nodiscard]] Extents choose_tile(const Extents& shape, std::size_t element_size, std::span<const Box> boxes);

}  // namespace reprieve::storage
