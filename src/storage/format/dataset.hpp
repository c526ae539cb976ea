// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Datasets as they lie in the file, and the bytes of their blocks. Local: no MPI, no HDF5, safe on any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/blocks.hpp"

namespace reprieve::storage {

/// Where the elements of a dataset lie in the file.
struct Dataset {
  std::uint64_t file_offset = 0;
  Extents shape;
  std::size_t element_size = 1;
  Extents tile{};  ///< empty: in C order as a whole; else see tiles.hpp
};

/// Where the bytes of a block begin in the file, if all lie side by side there. The block is as for `read_block`.
[[nodiscard]] std::optional<std::uint64_t> offset_if_dense(const Dataset& dataset, const Box& block);

/// From where bytes are read: the page cache may be asked, or not.
enum class ReadFrom : std::uint8_t { cache, device };

/// Reads the elements of @p block, which lies in one tile if there are tiles, to lie side by side in @p content. With
/// @p digest, adds them to it on the way.
void read_block(const PosixFile& file, const Dataset& dataset, const Box& block, std::span<std::byte> content,
                Xxh3Stream* digest = nullptr, ReadFrom from = ReadFrom::cache);

}  // namespace reprieve::storage
