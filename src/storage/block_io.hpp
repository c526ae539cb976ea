#pragma once

/// @file
/// Moves blocks between memory and the file. Local: no MPI, no HDF5, safe on any thread.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "storage/blocks.hpp"
#include "storage/checksum.hpp"
#include "storage/codec.hpp"
#include "storage/data_stream.hpp"
#include "storage/posix_file.hpp"

namespace reprieve::storage {

/// Where the elements of a dataset lie in the file.
struct Dataset {
  std::uint64_t file_offset = 0;
  Extents shape;
  std::size_t element_size = 1;
};

/// A box of a dataset with the memory that is to be written there. The box is in the dataset's indexes.
struct WriteItem {
  Dataset dataset;
  BoxView<const std::byte> source;

  [[nodiscard]] std::size_t bytes() const { return bytes_of(source.box, dataset.element_size); }
  /// Of each of its pieces that lie side by side in the file.
  [[nodiscard]] std::uint64_t run_bytes() const;
  /// Blocks with a checksum of their own.
  [[nodiscard]] std::size_t block_count() const;
};

/// The elements of @p block, which lies inside of the view, side by side: in place if they lie so in memory, else
/// copied to @p buffer.
[[nodiscard]] std::span<const std::byte> dense_block(const BoxView<const std::byte>& view, const Box& block,
                                                     std::size_t element_size, Bytes& buffer);

/// From where bytes are read: the page cache may be asked, or not.
enum class ReadFrom : std::uint8_t { cache, device };

/// Reads the elements of @p block to lie side by side in @p content. With @p digest, adds them to it on the way.
void read_block(const PosixFile& file, const Dataset& dataset, const Box& block, std::span<std::byte> content,
                Xxh3Stream* digest = nullptr, ReadFrom from = ReadFrom::cache);

/// Writes all items block by block, and returns the blocks' checksums in that order. What was
/// written is in the stream: its `finish` is the caller's. @throws StorageError
[[nodiscard]] std::vector<std::uint64_t> write_items(DataStream& stream, std::span<const WriteItem> items);

/// The checksums of all items as they are in memory, block by block.
[[nodiscard]] std::vector<std::uint64_t> checksums_of(std::span<const WriteItem> items);

/// Reads all items back and compares them with the checksums. @throws CorruptError, StorageError
void check_items(const PosixFile& file, std::span<const WriteItem> items, std::span<const std::uint64_t> checksums);

}  // namespace reprieve::storage
