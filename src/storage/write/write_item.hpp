// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Boxes in memory with their places in the file, and how they come there. Local: no MPI, no HDF5, safe on any thread.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "storage/bytes/checksum.hpp"
#include "storage/bytes/codec.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/blocks.hpp"
#include "storage/format/dataset.hpp"
#include "storage/write/data_stream.hpp"
#include "storage/write/written_ranges.hpp"

namespace reprieve::storage {

/// A box of a dataset with the memory that is to be written there. The box is in the dataset's indexes.
struct WriteItem {
  Dataset dataset;
  BoxView<const std::byte> source;
  /// Nobody else writes into this dataset: what the box does not cover, at its far edges, is filled with zeros
  /// (not where pieces are exchanged: there it keeps what the file held).
  bool fills_dataset = false;
  /// The item before is a part of the same row of the table of boxes.
  bool continues_row = false;

  [[nodiscard]] std::size_t bytes() const { return bytes_of(source.box, dataset.element_size); }
  /// Of each of its pieces that lie side by side in the file, with what is filled between them.
  [[nodiscard]] std::uint64_t run_bytes() const;
  /// Blocks with a checksum of their own.
  [[nodiscard]] std::size_t block_count() const;
};

/// Gives the elements of blocks side by side on the host. For one thread.
class BlockFeed {
 public:
  /// @param block  lies inside of the view. In place if they lie so in memory, else a copy, until the next call. What
  /// lies on a device is brought in pieces; a block that a buffer holds stays there
  [[nodiscard]] std::span<const std::byte> take(const BoxView<const std::byte>& view, const Box& block,
                                                std::size_t element_size);
  /// This block is taken next: if it lies on a device, it is on its way while the last one is used.
  void expect(const BoxView<const std::byte>& view, const Box& block, std::size_t element_size);

 private:
  Bytes buffer_;
  state::Staging staging_;
  const std::byte* expected_ = nullptr;  ///< the first element of the block that was begun; null: none
};

/// Writes all items block by block, and returns the blocks' checksums in that order. What was
/// written is in the stream: its `finish` is the caller's. @throws StorageError
/// @param ranges  what the file holds already, which is not written again; null: nothing is known of that
[[nodiscard]] std::vector<std::uint64_t> write_items(DataStream& stream, std::span<const WriteItem> items,
                                                     WrittenRanges* ranges = nullptr);

/// Adds the checksums of an item as it is in memory, block by block. @param feed  to be used again for the next
void add_checksums(const WriteItem& item, BlockFeed& feed, std::vector<std::uint64_t>& checksums);

/// The same of all items.
[[nodiscard]] std::vector<std::uint64_t> checksums_of(std::span<const WriteItem> items);

/// Reads all items back and compares them with the checksums. @throws CorruptError, StorageError
void check_items(const PosixFile& file, std::span<const WriteItem> items, std::span<const std::uint64_t> checksums);

}  // namespace reprieve::storage
