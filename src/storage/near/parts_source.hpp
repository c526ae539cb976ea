// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The blocks of a checkpoint that lies in parts.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "storage/bytes/staged_reader.hpp"
#include "storage/near/part_items.hpp"
#include "storage/read/block_source.hpp"

namespace reprieve::storage {

/// What this process can reach of a near copy.
class PartsSource final : public BlockSource {
 public:
  /// Rows that lie in a part. It is kept open.
  void add(std::shared_ptr<const Part> part, const FileIndex& index);
  /// Rows that another process has sent. @param data  to which their offsets belong @param owner  keeps that memory
  void add(const std::vector<PartRow>& rows, std::span<const std::byte> data, std::shared_ptr<const void> owner);

  /// Whether the data of this row are here. An empty row always is.
  [[nodiscard]] bool has(const StoredVariable& variable, const BoxRow& row) const;

  void read(const StoredVariable& variable, const BoxRow& row, std::uint64_t number, std::span<std::byte> content,
            Xxh3Stream* digest) const override;

 private:
  /// Adds what it has read to the digest if there is one.
  using Read = std::function<void(std::uint64_t offset, std::span<std::byte> into, Xxh3Stream* digest)>;
  struct Row {
    PartRow at;
    std::size_t data = 0;  ///< which
  };

  void add(const std::vector<PartRow>& rows, Read data);
  [[nodiscard]] const Row* find(std::uint64_t first_checksum) const;
  [[nodiscard]] std::uint64_t place_in_row(const StoredVariable& variable, const BoxRow& row,
                                           std::uint64_t number) const;

  std::vector<Row> rows_;  ///< ascending
  std::vector<Read> data_;
  mutable StagedReader staged_;
  // Where the blocks of the row begin that was read last.
  mutable std::uint64_t row_of_places_ = UINT64_MAX;
  mutable std::vector<std::uint64_t> places_;
};

}  // namespace reprieve::storage
