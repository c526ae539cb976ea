// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/tile_choice.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "storage/format/tiles.hpp"

namespace reprieve::storage {

namespace {

/// Smaller arrays are brought together soon enough.
constexpr std::uint64_t kLeastTiledBytes = std::uint64_t{2} << 20U;
/// Where boxes are small themselves, tiles that are worth no write of their own are still better than rows, if a box
/// has no more of them.
constexpr std::uint64_t kMostSmallTilesOfBox = 8;
/// Where borders cut tiles: of a box, no more may lie in such tiles.
constexpr double kMostCutPart = 0.5;
/// Each tile has a checksum at least, and the tables of a file a limit.
constexpr std::uint64_t kMostFineTiles = std::uint64_t{1} << 23U;
/// Tiles that are too large for HDF5 are cut by divisors up to this one.
constexpr std::uint64_t kMostDivisor = 1 << 16U;
/// The rows of a tile are not shorter than two cache lines, unless those of the box are.
constexpr std::uint64_t kLeastRowBytes = 128;
/// Padding may take that part of the array.
constexpr std::uint64_t kMostPadding = 4;

std::uint64_t bytes_in(const Extents& extent, std::size_t element_size) { return volume(extent) * element_size; }

bool has_short_rows(const Extents& shape, std::size_t element_size, std::span<const Box> boxes) {
  return std::any_of(boxes.begin(), boxes.end(), [&](const Box& box) {
    return volume(box.extent) > 0 && run_length(box, shape) * element_size < kLeastTileBytes;
  });
}

/// In each dimension the greatest common divisor of all places where a box begins or ends; without the ends of the
/// array itself, if tiles may be padded there.
Extents common_tile(const Extents& shape, std::span<const Box> boxes, bool padded) {
  Extents tile(shape.size(), 0);
  for (const Box& box : boxes) {
    if (volume(box.extent) == 0) {
      continue;
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::uint64_t end = box.offset[d] + box.extent[d];
      tile[d] = std::gcd(tile[d], box.offset[d]);
      tile[d] = padded && end == shape[d] ? tile[d] : std::gcd(tile[d], end);
    }
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    tile[d] = tile[d] == 0 ? shape[d] : tile[d];  // nobody cuts this dimension
  }
  return tile;
}

std::uint64_t least_divisor(std::uint64_t number) {
  for (std::uint64_t divisor = 2; divisor <= kMostDivisor && divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) {
      return divisor;
    }
  }
  return number;
}

/// Cuts a tile that is too large for HDF5, in the first dimensions, so that boxes are still made of whole ones.
Extents made_possible(Extents tile, const Extents& shape, std::size_t element_size) {
  for (std::size_t d = 0; d < tile.size(); ++d) {
    while (tile[d] > 1 && tile != shape && !is_possible_tile(shape, tile, element_size)) {
      tile[d] /= least_divisor(tile[d]);
    }
  }
  return tile;
}

/// In each dimension the median of all boxes.
Extents usual_extent(const Extents& shape, std::span<const Box> boxes) {
  Extents usual(shape.size(), 0);
  std::vector<std::uint64_t> lengths;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    lengths.clear();
    for (const Box& box : boxes) {
      if (volume(box.extent) > 0) {
        lengths.push_back(box.extent[d]);
      }
    }
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    usual[d] = *middle;
  }
  return usual;
}

/// The box, cut in as many parts as possible along each dimension that the ranks cut, with tiles that are still worth a
/// write.
Extents fine_tile(const Extents& shape, const Extents& box, std::size_t element_size) {
  const std::uint64_t least_row = std::min(box.back(), (kLeastRowBytes - 1) / element_size + 1);
  const auto cut = [&](std::uint64_t parts) {
    Extents tile(box);
    for (std::size_t d = 0; d < tile.size(); ++d) {
      tile[d] = box[d] == shape[d] ? box[d] : std::max<std::uint64_t>(box[d] / parts, 1);
    }
    tile.back() = std::max(tile.back(), least_row);
    return tile;
  };
  const std::uint64_t least = std::max(kLeastTileBytes, bytes_in(shape, element_size) / kMostFineTiles);
  const std::uint64_t most = *std::max_element(box.begin(), box.end());
  std::uint64_t parts = 1;
  while (parts < most && bytes_in(cut(parts + 1), element_size) >= least) {
    ++parts;
  }
  return cut(parts);
}

/// Of a box, what lies in tiles that its borders cut, if these fall anywhere.
double cut_part(const Extents& shape, const Extents& box, const Extents& tile) {
  double whole_part = 1;
  for (std::size_t d = 0; d < tile.size(); ++d) {
    if (box[d] < shape[d]) {
      whole_part *= 1 - std::min(1.0, static_cast<double>(tile[d]) / static_cast<double>(box[d]));
    }
  }
  return 1 - whole_part;
}

bool pads_little(const Extents& shape, const Extents& tile, std::size_t element_size) {
  std::uint64_t stored = 0;
  const std::uint64_t bytes = bytes_in(shape, element_size);
  return stored_bytes(shape, tile, element_size, stored) && stored - bytes <= bytes / kMostPadding;
}

}  // namespace

Extents choose_tile(const Extents& shape, std::size_t element_size, std::span<const Box> boxes) {
  if (shape.size() < 2 || bytes_in(shape, element_size) <= kLeastTiledBytes ||
      !has_short_rows(shape, element_size, boxes)) {
    return {};
  }
  const auto fits = [&](const Extents& tile) {
    return is_possible_tile(shape, tile, element_size) && pads_little(shape, tile, element_size) &&
           run_length(whole(tile), shape) < volume(tile);  // else its elements follow each other in rows as well
  };
  const Extents usual = usual_extent(shape, boxes);
  for (const bool padded : {false, true}) {
    Extents regular = made_possible(common_tile(shape, boxes, padded), shape, element_size);
    const bool is_small = volume(usual) <= volume(regular) * kMostSmallTilesOfBox;
    if (bytes_in(regular, element_size) >= (is_small ? kSmallestTileBytes : kLeastTileBytes) && fits(regular)) {
      return regular;
    }
  }
  const Extents fine = fine_tile(shape, usual, element_size);
  return cut_part(shape, usual, fine) <= kMostCutPart && fits(fine) ? fine : Extents{};
}

}  // namespace reprieve::storage
