// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Where the bytes of a checkpoint come from, if not from its file.

#include <cstddef>
#include <cstdint>
#include <span>

#include "storage/bytes/checksum.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// Local: no MPI. Used by one thread at a time.
class BlockSource {
 public:
  BlockSource() = default;
  virtual ~BlockSource() = default;
  BlockSource(const BlockSource&) = delete;
  BlockSource& operator=(const BlockSource&) = delete;

  /// Fills @p content with block @p number of a row, its elements side by side in C order, and adds them to @p digest
  /// if there is one. @throws CorruptError if they cannot be had
  virtual void read(const StoredVariable& variable, const BoxRow& row, std::uint64_t number,
                    std::span<std::byte> content, Xxh3Stream* digest) const = 0;
};

}  // namespace reprieve::storage
