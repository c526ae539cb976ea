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
  Extents chunk{};  ///< empty: in C order as a whole; else the shape of its chunks
  /// Whole chunks may lie there compressed. Each has the room for all its bytes.
  bool compressed = false;
};
constexpr auto fields_of(const Dataset*) {
  return std::tuple(&Dataset::file_offset, &Dataset::shape, &Dataset::element_size, &Dataset::chunk,
                    &Dataset::compressed);
}

/// Where the bytes of a block begin in the file, if all lie side by side there. The block is as for `read_block`.
[[nodiscard]] std::optional<std::uint64_t> offset_if_dense(const Dataset& dataset, const Box& block);

/// From where bytes are read: the page cache may be asked, or not.
enum class ReadFrom : std::uint8_t { cache, device };

/// Reads the elements of @p block, which lies in one chunk if there are chunks, to lie side by side in @p content. With
/// @p digest, adds them to it on the way.
void read_block(const PosixFile& file, const Dataset& dataset, const Box& block, std::span<std::byte> content,
                Xxh3Stream* digest = nullptr, ReadFrom from = ReadFrom::cache);

// Arrays that lie in a file as chunks: pieces of one shape, one after the other in C order, each in C order by itself
// (HDF5's chunks). Chunks at the far edges of the array are stored whole, with padding. An array without chunks is one
// chunk of its own shape. Pure.

/// Less than that in one piece goes through the page cache: it is not worth a direct write of its own.
inline constexpr std::uint64_t kLeastDirectBytes = std::uint64_t{256} << 10U;
/// Chunks of one rank alone go to the file by themselves from this size on: a write of them is no dearer than a
/// message.
inline constexpr std::uint64_t kLeastOwnChunkBytes = std::uint64_t{16} << 10U;

/// No chunk is smaller: what is known of each takes memory in a reader.
inline constexpr std::uint64_t kSmallestChunkBytes = 4096;
/// Chunks of less are not worth a write of their own.
inline constexpr std::uint64_t kLeastChunkBytes = std::uint64_t{256} << 10U;

/// What of a box lies in one chunk.
struct ChunkPart {
  Dataset dataset;  ///< the chunk, as a dataset by itself
  Box box;          ///< in the array
  Box within;       ///< in the chunk
  /// The part is all that the array has in this chunk: who writes it may write the padding too.
  bool is_all = false;
};

/// The parts of @p box, chunk by chunk in C order; none if it is empty.
[[nodiscard]] std::vector<ChunkPart> chunk_parts(const Dataset& dataset, const Box& box);

/// How many parts a box has in such chunks: without memory for each.
/// @param chunk  empty: no chunks; @param offset, extent  of the box
[[nodiscard]] std::uint64_t chunk_count(const Extents& chunk, std::span<const std::uint64_t> offset,
                                        std::span<const std::uint64_t> extent);

/// How many chunks an array has.
[[nodiscard]] std::uint64_t chunks_in(const Dataset& dataset);

/// True if a box of an array of @p shape is made of whole chunks, as far as the array goes.
[[nodiscard]] bool is_whole_chunks(const Extents& shape, const Extents& chunk, std::span<const std::uint64_t> offset,
                                   std::span<const std::uint64_t> extent);

/// Of a box that lies in one chunk.
[[nodiscard]] ChunkPart chunk_part(const Dataset& dataset, const Box& box);

/// What the chunks take in the file, with their padding. False if that does not fit into a signed 64-bit file offset.
/// @param chunk  as many dimensions as @p shape, none of them 0; or empty: no chunks
[[nodiscard]] bool stored_bytes(const Extents& shape, const Extents& chunk, std::uint64_t element_size,
                                std::uint64_t& bytes);

/// Of a dataset that is known to fit.
[[nodiscard]] std::uint64_t stored_bytes(const Dataset& dataset);

/// Whether HDF5 has chunks of this shape in an array without an index of them, and a file may have such chunks.
/// @param chunk  not empty
[[nodiscard]] bool is_possible_chunk(const Extents& shape, const Extents& chunk, std::uint64_t element_size);

/// A box cut into blocks: what of it lies in each chunk by itself, in the order of the chunks. Takes memory for chunks
/// that are larger than a block alone.
class ChunkedSplit {
 public:
  ChunkedSplit(const Dataset& dataset, const Box& box);

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// In the array.
  [[nodiscard]] Box block(std::uint64_t index) const;
  /// The numbers of the blocks that can have elements in common with another box, ascending.
  [[nodiscard]] std::vector<std::uint64_t> intersecting(const Box& wanted) const;

 private:
  struct Part {
    Box box;
    BlockSplit split;
    std::uint64_t first = 0;  ///< number of its first block
  };
  [[nodiscard]] std::vector<std::uint64_t> chunks_that_intersect(const Box& common) const;

  Dataset dataset_;
  Box box_;
  bool one_for_each_chunk_ = false;  ///< a block is what of the box lies in a chunk
  Extents first_chunk_;              ///< then, in each dimension
  Extents chunks_;                   ///< then, how many in each dimension
  std::vector<Part> parts_;          ///< otherwise
  std::uint64_t count_ = 0;
};

/// The chunks for an array that the ranks hold in these boxes. Empty if it is stored in rows: an array with long rows
/// in its boxes, a small array, or one without a gain by chunks.
///
/// Where the cut is regular, a chunk is the greatest one that makes up all boxes. Otherwise it is so small that a box
/// holds most of its chunks whole. The ranks must exchange the chunks that borders cut.
/// @param boxes  of all ranks; empty ones count for nothing
/// Cost: linear in the number of boxes.
[[nodiscard]] Extents choose_chunk(const Extents& shape, std::size_t element_size, std::span<const Box> boxes);

/// The same for an array that may be compressed: chunks of about 1 MiB, each of which is compressed by itself. Rows are
/// cut too. A chunk is a multiple of a page, so that it goes past the page cache. Empty if there is none such, or if
/// the boxes are smaller than a chunk is worth.
[[nodiscard]] Extents choose_compressed_chunk(const Extents& shape, std::size_t element_size,
                                              std::span<const Box> boxes);

}  // namespace reprieve::storage
