// SPDX-License-Identifier: BSD-3-Clause
#include "storage/format/dataset.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>

#include "storage/bytes/compression.hpp"

namespace reprieve::storage {

namespace {

/// Of HDF5's chunks.
constexpr std::uint64_t kMostChunkElements = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMostChunkBytes = std::numeric_limits<std::uint32_t>::max();

std::uint64_t chunks_along(std::uint64_t length, std::uint64_t chunk) { return length / chunk + (length % chunk > 0); }

/// The chunk with the number @p at in each dimension.
ChunkPart part_at(const Dataset& dataset, const Box& box, const Extents& at) {
  std::uint64_t number = 0;
  Box chunk{at, dataset.chunk};
  Box there{at, dataset.chunk};  // as far as the array goes
  for (std::size_t d = 0; d < at.size(); ++d) {
    number = number * chunks_along(dataset.shape[d], dataset.chunk[d]) + at[d];
    chunk.offset[d] *= dataset.chunk[d];
    there.offset[d] = chunk.offset[d];
    there.extent[d] = std::min(dataset.chunk[d], dataset.shape[d] - chunk.offset[d]);
  }
  ChunkPart part;
  part.dataset = {dataset.file_offset + number * volume(dataset.chunk) * dataset.element_size,
                  dataset.chunk,
                  dataset.element_size,
                  {},
                  dataset.compressed};
  part.box = intersection(box, there);
  part.is_all = part.box == there;
  part.within = part.box;
  for (std::size_t d = 0; d < at.size(); ++d) {
    part.within.offset[d] -= chunk.offset[d];
  }
  return part;
}

/// In each dimension the first chunk that has a part of a box with elements, and how many have.
void chunk_range(const Dataset& dataset, const Box& box, Extents& first, Extents& chunks) {
  first = box.offset;
  chunks = box.extent;
  for (std::size_t d = 0; d < first.size(); ++d) {
    first[d] = box.offset[d] / dataset.chunk[d];
    chunks[d] = (box.offset[d] + box.extent[d] - 1) / dataset.chunk[d] - first[d] + 1;
  }
}

/// Calls @p visit(number of the chunk in each dimension) for all of them, in C order.
template <class Visit>
void for_each_chunk(const Dataset& dataset, const Box& box, Visit&& visit) {
  Extents first;
  Extents chunks;
  chunk_range(dataset, box, first, chunks);
  Extents step(first.size(), 0);
  Extents at(first);
  do {
    std::ranges::transform(first, step, at.begin(), std::plus<>());
    visit(at);
  } while (state::next_index(step, chunks, chunks.size()));
}

/// The ranks exchange smaller arrays fast enough.
constexpr std::uint64_t kLeastChunkdBytes = std::uint64_t{2} << 20U;
/// Where boxes are small themselves, chunks that are worth no write of their own are still better than rows, if a box
/// has no more of them.
constexpr std::uint64_t kMostSmallChunksOfBox = 8;
/// Where borders cut chunks: of a box, no more may lie in such chunks.
constexpr double kMostCutPart = 0.5;
/// Each chunk has a checksum at least, and the tables of a file a limit.
constexpr std::uint64_t kMostFineChunks = std::uint64_t{1} << 23U;
/// Chunks that are too large for HDF5 are cut by divisors up to this one.
constexpr std::uint64_t kMostDivisor = 1 << 16U;
/// The rows of a chunk are not shorter than two cache lines, unless those of the box are.
constexpr std::uint64_t kLeastRowBytes = 128;
/// A chunk that is compressed by itself: what a processor's cache holds.
constexpr std::uint64_t kMostCompressedBytes = std::uint64_t{1} << 20U;
/// An eighth of it is at least a page twice over.
constexpr std::uint64_t kLeastCompressedBytes = std::uint64_t{64} << 10U;
/// Padding may take that part of the array.
constexpr std::uint64_t kMostPadding = 4;

std::uint64_t bytes_in(const Extents& extent, std::size_t element_size) { return volume(extent) * element_size; }

bool has_short_rows(const Extents& shape, std::size_t element_size, std::span<const Box> boxes) {
  return std::ranges::any_of(boxes, [&](const Box& box) {
    return volume(box.extent) > 0 && run_length(box, shape) * element_size < kLeastChunkBytes;
  });
}

/// In each dimension the greatest common divisor of all indices where a box begins or ends; without the ends of the
/// array itself, if chunks may be padded there.
Extents common_chunk(const Extents& shape, std::span<const Box> boxes, bool padded) {
  Extents chunk(shape.size(), 0);
  for (const Box& box : boxes) {
    if (volume(box.extent) == 0) {
      continue;
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::uint64_t end = box.offset[d] + box.extent[d];
      chunk[d] = std::gcd(chunk[d], box.offset[d]);
      chunk[d] = padded && end == shape[d] ? chunk[d] : std::gcd(chunk[d], end);
    }
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    chunk[d] = chunk[d] == 0 ? shape[d] : chunk[d];  // nobody cuts this dimension
  }
  return chunk;
}

std::uint64_t least_divisor(std::uint64_t number) {
  for (std::uint64_t divisor = 2; divisor <= kMostDivisor && divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) {
      return divisor;
    }
  }
  return number;
}

/// Cuts a chunk that is too large for HDF5, in the first dimensions, so that boxes are still made of whole ones.
Extents made_possible(Extents chunk, const Extents& shape, std::size_t element_size) {
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    while (chunk[d] > 1 && chunk != shape && !is_possible_chunk(shape, chunk, element_size)) {
      chunk[d] /= least_divisor(chunk[d]);
    }
  }
  return chunk;
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

/// The box, cut in as many parts as possible along each dimension that the ranks cut, with chunks that are still worth
/// a write.
Extents fine_chunk(const Extents& shape, const Extents& box, std::size_t element_size) {
  const std::uint64_t least_row = std::min(box.back(), (kLeastRowBytes - 1) / element_size + 1);
  const auto cut = [&](std::uint64_t parts) {
    Extents chunk(box);
    for (std::size_t d = 0; d < chunk.size(); ++d) {
      chunk[d] = box[d] == shape[d] ? box[d] : std::max<std::uint64_t>(box[d] / parts, 1);
    }
    chunk.back() = std::max(chunk.back(), least_row);
    return chunk;
  };
  const std::uint64_t least = std::max(kLeastChunkBytes, bytes_in(shape, element_size) / kMostFineChunks);
  const std::uint64_t most = *std::ranges::max_element(box);
  std::uint64_t parts = 1;
  while (parts < most && bytes_in(cut(parts + 1), element_size) >= least) {
    ++parts;
  }
  return cut(parts);
}

/// Of a box, what lies in chunks that its borders cut, if these fall anywhere.
double cut_part(const Extents& shape, const Extents& box, const Extents& chunk) {
  double whole_part = 1;
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    if (box[d] < shape[d]) {
      whole_part *= 1 - std::min(1.0, static_cast<double>(chunk[d]) / static_cast<double>(box[d]));
    }
  }
  return 1 - whole_part;
}

bool pads_little(const Extents& shape, const Extents& chunk, std::size_t element_size) {
  std::uint64_t stored = 0;
  const std::uint64_t bytes = bytes_in(shape, element_size);
  return stored_bytes(shape, chunk, element_size, stored) && stored - bytes <= bytes / kMostPadding;
}

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

std::vector<ChunkPart> chunk_parts(const Dataset& dataset, const Box& box) {
  std::vector<ChunkPart> parts;
  if (volume(box.extent) == 0) {
    return parts;
  }
  if (dataset.chunk.empty()) {
    parts.push_back({dataset, box, box});
    return parts;
  }
  for_each_chunk(dataset, box, [&](const Extents& at) { parts.push_back(part_at(dataset, box, at)); });
  return parts;
}

std::uint64_t chunk_count(const Extents& chunk, std::span<const std::uint64_t> offset,
                          std::span<const std::uint64_t> extent) {
  if (std::ranges::find(extent, 0U) != extent.end()) {
    return 0;
  }
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    count *= (offset[d] + extent[d] - 1) / chunk[d] - offset[d] / chunk[d] + 1;
  }
  return count;
}

std::uint64_t chunks_in(const Dataset& dataset) {
  return chunk_count(dataset.chunk, Extents(dataset.shape.size(), 0), dataset.shape);
}

bool is_whole_chunks(const Extents& shape, const Extents& chunk, std::span<const std::uint64_t> offset,
                     std::span<const std::uint64_t> extent) {
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    const std::uint64_t end = offset[d] + extent[d];
    if (offset[d] % chunk[d] != 0 || (end % chunk[d] != 0 && end != shape[d])) {
      return false;
    }
  }
  return true;
}

ChunkPart chunk_part(const Dataset& dataset, const Box& box) {
  if (dataset.chunk.empty()) {
    return {dataset, box, box};
  }
  Extents at(box.offset);
  for (std::size_t d = 0; d < at.size(); ++d) {
    at[d] /= dataset.chunk[d];
  }
  return part_at(dataset, box, at);
}

bool stored_bytes(const Extents& shape, const Extents& chunk, std::uint64_t element_size, std::uint64_t& bytes) {
  Extents stored(shape);
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    const std::uint64_t chunks = chunks_along(shape[d], chunk[d]);
    if (__builtin_mul_overflow(chunks, chunk[d], &stored[d])) {
      return false;
    }
  }
  return checked_bytes(stored, element_size, bytes);
}

std::uint64_t stored_bytes(const Dataset& dataset) {
  std::uint64_t bytes = 0;
  static_cast<void>(stored_bytes(dataset.shape, dataset.chunk, dataset.element_size, bytes));
  return bytes;
}

bool is_possible_chunk(const Extents& shape, const Extents& chunk, std::uint64_t element_size) {
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    if (chunk[d] == 0 || chunk[d] > shape[d] || elements > kMostChunkElements / chunk[d]) {
      return false;
    }
    elements *= chunk[d];
  }
  return chunk != shape && elements <= kMostChunkBytes / element_size && elements * element_size >= kSmallestChunkBytes;
}

ChunkedSplit::ChunkedSplit(const Dataset& dataset, const Box& box) : dataset_(dataset), box_(box) {
  one_for_each_chunk_ = !dataset.chunk.empty() && volume(box.extent) > 0 &&
                        volume(dataset.chunk) <= kMaxBlockBytes / dataset.element_size;
  if (one_for_each_chunk_) {
    chunk_range(dataset, box, first_chunk_, chunks_);
    count_ = volume(chunks_);
    return;
  }
  for (const ChunkPart& part : chunk_parts(dataset, box)) {
    parts_.push_back({part.box, BlockSplit(part.box, dataset.element_size), count_});
    count_ += parts_.back().split.count();
  }
}

Box ChunkedSplit::block(std::uint64_t index) const {
  if (one_for_each_chunk_) {
    Extents at(first_chunk_);
    for (std::size_t d = at.size(); d-- > 0; index /= chunks_[d]) {
      at[d] += index % chunks_[d];
    }
    return part_at(dataset_, box_, at).box;
  }
  const auto next = std::upper_bound(parts_.begin(), parts_.end(), index,
                                     [](std::uint64_t number, const Part& part) { return number < part.first; });
  const Part& part = *std::prev(next);
  return part.split.block(index - part.first);
}

std::vector<std::uint64_t> ChunkedSplit::intersecting(const Box& wanted) const {
  const Box common = intersection(box_, wanted);
  if (volume(common.extent) == 0) {
    return {};
  }
  if (one_for_each_chunk_) {
    return chunks_that_intersect(common);
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

std::vector<std::uint64_t> ChunkedSplit::chunks_that_intersect(const Box& common) const {
  std::vector<std::uint64_t> numbers;
  for_each_chunk(dataset_, common, [&](const Extents& at) {
    std::uint64_t number = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      number = number * chunks_[d] + (at[d] - first_chunk_[d]);
    }
    numbers.push_back(number);
  });
  return numbers;
}

Extents choose_chunk(const Extents& shape, std::size_t element_size, std::span<const Box> boxes) {
  if (shape.size() < 2 || bytes_in(shape, element_size) <= kLeastChunkdBytes ||
      !has_short_rows(shape, element_size, boxes)) {
    return {};
  }
  const auto fits = [&](const Extents& chunk) {
    return is_possible_chunk(shape, chunk, element_size) && pads_little(shape, chunk, element_size) &&
           run_length(whole(chunk), shape) < volume(chunk);  // else its elements follow each other in rows as well
  };
  const Extents usual = usual_extent(shape, boxes);
  for (const bool padded : {false, true}) {
    Extents regular = made_possible(common_chunk(shape, boxes, padded), shape, element_size);
    const bool is_small = volume(usual) <= volume(regular) * kMostSmallChunksOfBox;
    if (bytes_in(regular, element_size) >= (is_small ? kSmallestChunkBytes : kLeastChunkBytes) && fits(regular)) {
      return regular;
    }
  }
  const Extents fine = fine_chunk(shape, usual, element_size);
  return cut_part(shape, usual, fine) <= kMostCutPart && fits(fine) ? fine : Extents{};
}

Extents choose_compressed_chunk(const Extents& shape, std::size_t element_size, std::span<const Box> boxes) {
  const bool has_boxes = std::ranges::any_of(boxes, [](const Box& box) { return volume(box.extent) > 0; });
  if (shape.empty() || !has_boxes || bytes_in(shape, element_size) <= kLeastChunkdBytes) {
    return {};
  }
  Extents chunk = choose_chunk(shape, element_size, boxes);
  if (chunk.empty()) {
    chunk = usual_extent(shape, boxes);
    if (bytes_in(chunk, element_size) < kLeastChunkBytes ||
        (shape.size() > 1 && has_short_rows(shape, element_size, boxes))) {
      return {};
    }
  }
  for (std::uint64_t& length : chunk) {
    const std::uint64_t parts = (bytes_in(chunk, element_size) - 1) / kMostCompressedBytes + 1;
    length = std::max<std::uint64_t>((length - 1) / parts + 1, 1);
  }
  const auto cut = std::ranges::find_if(chunk, [](std::uint64_t length) { return length > 1; });
  if (cut == chunk.end()) {
    return {};  // of elements that are as large as a chunk
  }
  const std::uint64_t pages = kPageBytes / std::gcd(kPageBytes, bytes_in(chunk, element_size) / *cut);
  *cut = (*cut + pages - 1) / pages * pages;
  const std::uint64_t bytes = bytes_in(chunk, element_size);
  return is_possible_chunk(shape, chunk, element_size) && pads_little(shape, chunk, element_size) &&
                 bytes % kPageBytes == 0 && bytes >= kLeastCompressedBytes && bytes <= kMaxBlockBytes
             ? chunk
             : Extents{};
}

std::optional<std::uint64_t> offset_if_dense(const Dataset& dataset, const Box& block) {
  if (!dataset.chunk.empty()) {
    const ChunkPart part = chunk_part(dataset, block);
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
  if (!dataset.chunk.empty()) {
    const ChunkPart part = chunk_part(dataset, block);
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
