// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The blocks of a checkpoint that lies in parts.

#include <cstdint>
#include <memory>
#include <vector>

#include "storage/near/part_items.hpp"
#include "storage/read/block_source.hpp"

namespace reprieve::storage {

/// What this process can reach of a near copy.
class PartsSource final : public BlockSource {
 public:
  /// Rows that lie in a part. It is kept open.
  void add(std::shared_ptr<const Part> part, const FileIndex& index);
  /// Rows that another process has sent. @param owner  keeps their memory
  void add(std::vector<PartRow> rows, std::shared_ptr<const void> owner);

  /// Whether the data of this row are here. An empty row always is.
  [[nodiscard]] bool has(const StoredVariable& variable, const BoxRow& row) const;

  void read(const StoredVariable& variable, const BoxRow& row, std::uint64_t number, std::span<std::byte> content,
            Xxh3Stream* digest) const override;

 private:
  [[nodiscard]] const PartRow* find(std::uint64_t first_checksum) const;
  [[nodiscard]] std::uint64_t place_in_row(const StoredVariable& variable, const BoxRow& row,
                                           std::uint64_t number) const;

  std::vector<PartRow> rows_;  ///< ascending
  std::vector<std::shared_ptr<const void>> owners_;
  // Where the blocks of the row begin that was read last.
  mutable std::uint64_t row_of_places_ = UINT64_MAX;
  mutable std::vector<std::uint64_t> places_;
};

}  // namespace reprieve::storage
