// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/dataset.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

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

namespace {

/// Reads the runs of a block in ascending order. Short ones that lie close to each other are read together with what is
/// between them: a call for each would cost more than the bytes. (Data sieving: Thakur, Gropp, Lusk,
/// "Data sieving and collective I/O in ROMIO", 1999.)
class RunReader {
 public:
  RunReader(const PosixFile& file, const Dataset& dataset, const Box& block, ReadFrom from) : file_(file), from_(from) {
    const std::uint64_t run = run_length(block, dataset.shape) * dataset.element_size;
    if (run == 0 || run > kLongestSieved) {
      return;
    }
    const Strides strides = dense_strides(dataset.shape, dataset.element_size);
    const auto offset_of = [&](const Extents& index) {
      return dataset.file_offset + static_cast<std::uint64_t>(state::distance(index, strides, strides.size()));
    };
    Extents last = block.offset;
    for (std::size_t d = 0; d < last.size(); ++d) {
      last[d] += block.extent[d] - 1;
    }
    end_of_block_ = offset_of(last) + dataset.element_size;
    const std::uint64_t hull = end_of_block_ - offset_of(block.offset);
    sieves_ = run < hull && hull <= kMostPerByte * bytes_of(block, dataset.element_size);
  }

  /// Adds what it has read to @p digest, if there is one.
  void read(std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest) {
    if (!sieves_) {
      read_bytes(to, offset, digest);
      return;
    }
    if (offset + to.size() > end_) {
      load(offset);
    }
    std::memcpy(to.data(), window_.get() + (offset - begin_), to.size());
    if (digest != nullptr) {
      digest->update(to);
    }
  }

 private:
  static constexpr std::uint64_t kLongestSieved = std::uint64_t{64} << 10U;
  static constexpr std::uint64_t kWindow = std::uint64_t{1} << 20U;
  /// Bytes that are read for one that is wanted.
  static constexpr std::uint64_t kMostPerByte = 8;

  void load(std::uint64_t offset) {
    if (!window_) {
      window_ = std::make_unique_for_overwrite<std::byte[]>(kWindow);
    }
    begin_ = offset;
    end_ = std::min(offset + kWindow, end_of_block_);
    read_bytes({window_.get(), static_cast<std::size_t>(end_ - begin_)}, begin_, nullptr);
  }

  void read_bytes(std::span<std::byte> to, std::uint64_t offset, Xxh3Stream* digest) {
    if (from_ == ReadFrom::cache) {
      file_.read_and_digest(to, offset, digest);
      return;
    }
    file_.read_all_again(to, offset);
    if (digest != nullptr) {
      digest->update(to);
    }
  }

  const PosixFile& file_;
  ReadFrom from_;
  bool sieves_ = false;
  std::uint64_t end_of_block_ = 0;
  std::unique_ptr<std::byte[]> window_;  ///< the file from `begin_` to `end_`
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace

std::optional<std::uint64_t> offset_if_dense(const Dataset& dataset, const Box& block) {
  if (!dataset.tile.empty()) {
    const TilePart part = tile_part(dataset, block);
    return offset_if_dense(part.dataset, part.within);
  }
  if (volume(block.extent) == 0 || run_length(block, dataset.shape) != volume(block.extent)) {
    return std::nullopt;
  }
  const Strides strides = dense_strides(dataset.shape, dataset.element_size);
  return dataset.file_offset + static_cast<std::uint64_t>(state::distance(block.offset, strides, strides.size()));
}

void read_block(const PosixFile& file, const Dataset& dataset, const Box& block, std::span<std::byte> content,
                Xxh3Stream* digest, ReadFrom from) {
  if (!dataset.tile.empty()) {
    const TilePart part = tile_part(dataset, block);
    read_block(file, part.dataset, part.within, content, digest, from);
    return;
  }
  RunReader reader(file, dataset, block, from);
  for_each_run(block, dataset.shape, [&](std::uint64_t first, std::uint64_t count) {
    const auto run = content.first(static_cast<std::size_t>(count) * dataset.element_size);
    reader.read(run, dataset.file_offset + first * dataset.element_size, digest);
    content = content.subspan(run.size());
  });
}

}  // namespace reprieve::storage
