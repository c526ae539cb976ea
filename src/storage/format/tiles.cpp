// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/tiles.hpp"

#include <algorithm>
#include <limits>

namespace reprieve::storage {

namespace {

/// Of HDF5's chunks.
constexpr std::uint64_t kMostTileElements = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMostTileBytes = std::numeric_limits<std::uint32_t>::max();

std::uint64_t tiles_along(std::uint64_t length, std::uint64_t tile) { return length / tile + (length % tile > 0); }

/// The tile with the number @p at in each dimension.
TilePart part_at(const Dataset& dataset, const Box& box, const Extents& at) {
  std::uint64_t number = 0;
  Box tile{at, dataset.tile};
  Box there{at, dataset.tile};  // as far as the array goes
  for (std::size_t d = 0; d < at.size(); ++d) {
    number = number * tiles_along(dataset.shape[d], dataset.tile[d]) + at[d];
    tile.offset[d] *= dataset.tile[d];
    there.offset[d] = tile.offset[d];
    there.extent[d] = std::min(dataset.tile[d], dataset.shape[d] - tile.offset[d]);
  }
  TilePart part;
  part.dataset.file_offset = dataset.file_offset + number * volume(dataset.tile) * dataset.element_size;
  part.dataset.shape = dataset.tile;
  part.dataset.element_size = dataset.element_size;
  part.box = intersection(box, there);
  part.is_all = part.box == there;
  part.within = part.box;
  for (std::size_t d = 0; d < at.size(); ++d) {
    part.within.offset[d] -= tile.offset[d];
  }
  return part;
}

/// In each dimension the first tile that has a part of a box with elements, and how many have.
void tile_range(const Dataset& dataset, const Box& box, Extents& first, Extents& tiles) {
  first = box.offset;
  tiles = box.extent;
  for (std::size_t d = 0; d < first.size(); ++d) {
    first[d] = box.offset[d] / dataset.tile[d];
    tiles[d] = (box.offset[d] + box.extent[d] - 1) / dataset.tile[d] - first[d] + 1;
  }
}

}  // namespace

std::vector<TilePart> tile_parts(const Dataset& dataset, const Box& box) {
  std::vector<TilePart> parts;
  if (volume(box.extent) == 0) {
    return parts;
  }
  if (dataset.tile.empty()) {
    parts.push_back({dataset, box, box});
    return parts;
  }
  Extents first;
  Extents tiles;
  tile_range(dataset, box, first, tiles);
  Extents step(first.size(), 0);
  do {
    Extents at(first);
    for (std::size_t d = 0; d < at.size(); ++d) {
      at[d] += step[d];
    }
    parts.push_back(part_at(dataset, box, at));
  } while (state::next_index(step, tiles, tiles.size()));
  return parts;
}

std::uint64_t tile_count(const Extents& tile, std::span<const std::uint64_t> offset,
                         std::span<const std::uint64_t> extent) {
  if (std::ranges::find(extent, 0U) != extent.end()) {
    return 0;
  }
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < tile.size(); ++d) {
    count *= (offset[d] + extent[d] - 1) / tile[d] - offset[d] / tile[d] + 1;
  }
  return count;
}

bool is_whole_tiles(const Extents& shape, const Extents& tile, std::span<const std::uint64_t> offset,
                    std::span<const std::uint64_t> extent) {
  for (std::size_t d = 0; d < tile.size(); ++d) {
    const std::uint64_t end = offset[d] + extent[d];
    if (offset[d] % tile[d] != 0 || (end % tile[d] != 0 && end != shape[d])) {
      return false;
    }
  }
  return true;
}

TilePart tile_part(const Dataset& dataset, const Box& box) {
  if (dataset.tile.empty()) {
    return {dataset, box, box};
  }
  Extents at(box.offset);
  for (std::size_t d = 0; d < at.size(); ++d) {
    at[d] /= dataset.tile[d];
  }
  return part_at(dataset, box, at);
}

bool stored_bytes(const Extents& shape, const Extents& tile, std::uint64_t element_size, std::uint64_t& bytes) {
  Extents stored(shape);
  for (std::size_t d = 0; d < tile.size(); ++d) {
    const std::uint64_t tiles = tiles_along(shape[d], tile[d]);
    if (__builtin_mul_overflow(tiles, tile[d], &stored[d])) {
      return false;
    }
  }
  return checked_bytes(stored, element_size, bytes);
}

std::uint64_t stored_bytes(const Dataset& dataset) {
  std::uint64_t bytes = 0;
  static_cast<void>(stored_bytes(dataset.shape, dataset.tile, dataset.element_size, bytes));
  return bytes;
}

bool is_possible_tile(const Extents& shape, const Extents& tile, std::uint64_t element_size) {
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < tile.size(); ++d) {
    if (tile[d] == 0 || tile[d] > shape[d] || elements > kMostTileElements / tile[d]) {
      return false;
    }
    elements *= tile[d];
  }
  return tile != shape && elements <= kMostTileBytes / element_size && elements * element_size >= kSmallestTileBytes;
}

TiledSplit::TiledSplit(const Dataset& dataset, const Box& box) : dataset_(dataset), box_(box) {
  one_for_each_tile_ =
      !dataset.tile.empty() && volume(box.extent) > 0 && volume(dataset.tile) <= kMaxBlockBytes / dataset.element_size;
  if (one_for_each_tile_) {
    tile_range(dataset, box, first_tile_, tiles_);
    count_ = volume(tiles_);
    return;
  }
  for (const TilePart& part : tile_parts(dataset, box)) {
    parts_.push_back({part.box, BlockSplit(part.box, dataset.element_size), count_});
    count_ += parts_.back().split.count();
  }
}

Box TiledSplit::block(std::uint64_t index) const {
  if (one_for_each_tile_) {
    Extents at(first_tile_);
    for (std::size_t d = at.size(); d-- > 0; index /= tiles_[d]) {
      at[d] += index % tiles_[d];
    }
    return part_at(dataset_, box_, at).box;
  }
  const auto next = std::upper_bound(parts_.begin(), parts_.end(), index,
                                     [](std::uint64_t number, const Part& part) { return number < part.first; });
  const Part& part = *std::prev(next);
  return part.split.block(index - part.first);
}

std::vector<std::uint64_t> TiledSplit::meeting(const Box& wanted) const {
  const Box common = intersection(box_, wanted);
  if (volume(common.extent) == 0) {
    return {};
  }
  if (one_for_each_tile_) {
    return tiles_meeting(common);
  }
  std::vector<std::uint64_t> numbers;
  for (const Part& part : parts_) {
    if (volume(intersection(part.box, wanted).extent) > 0) {
      for (std::uint64_t i = 0; i < part.split.count(); ++i) {
        numbers.push_back(part.first + i);
      }
    }
  }
  return numbers;
}

std::vector<std::uint64_t> TiledSplit::tiles_meeting(const Box& common) const {
  Extents first;
  Extents tiles;
  tile_range(dataset_, common, first, tiles);
  std::vector<std::uint64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(volume(tiles)));
  Extents step(tiles.size(), 0);
  do {
    std::uint64_t number = 0;
    for (std::size_t d = 0; d < tiles.size(); ++d) {
      number = number * tiles_[d] + (first[d] - first_tile_[d] + step[d]);
    }
    numbers.push_back(number);
  } while (state::next_index(step, tiles, tiles.size()));
  return numbers;
}

}  // namespace reprieve::storage
