// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The parts of a node-local copy: what each holds, their blocks for a restore, and one file made of them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/directory.hpp"
#include "storage/bytes/readers.hpp"
#include "storage/format/file_index.hpp"
#include "storage/local/part_file.hpp"
#include "storage/read/block_reader.hpp"
#include "storage/write/write_item.hpp"

namespace reprieve::storage {

// What a part holds, by the tables of the file that it is a part of.

/// A row of the table of boxes that is not empty. Its elements lie side by side.
struct PartRow {
  std::uint64_t first_checksum = 0;  ///< which no other row has
  std::uint64_t offset = 0;          ///< from the begin of the data
};

// The blocks of a checkpoint that lies in parts.

/// What this process can reach of a node-local copy.
class PartsSource final : public BlockSource {
 public:
  /// Rows that lie in a part. It is kept open. @throws CorruptError that names the rank, if it is not of that file
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
    std::shared_ptr<const Read> data;
    std::uint64_t offset = 0;
  };

  void add(const std::vector<PartRow>& rows, Read data);
  [[nodiscard]] std::uint64_t place_in_row(const StoredVariable& variable, const BoxRow& row,
                                           std::uint64_t number) const;

  std::map<std::uint64_t, Row> rows_;  ///< by their first checksums
  mutable StagedReader staged_;
  // Where the blocks of the row begin that was read last.
  mutable std::uint64_t row_of_places_ = UINT64_MAX;
  mutable std::vector<std::uint64_t> places_;
};

// One checkpoint file, made of the parts of a node-local copy: the same, byte for byte, as a save at that step would
// have written. Local: each process adds the parts that it can reach.

/// Makes the file with its structure and without data, and without a commit record. @throws StorageError
void begin_assembly(const core::FileAddress& file, const StructureImage& image);

/// Writes the data of a part at their offsets in the begun file, and makes them durable.
/// @param data  of the part @throws CorruptError if it is corrupt: then the file is worth nothing; StorageError
void add_part(const core::FileAddress& file, const Part& part, std::span<const std::byte> data, const FileIndex& index,
              bool durable);

/// Completes the file, in which all parts are. @param index  with all checksums @throws StorageError
void end_assembly(const core::FileAddress& file, const StructureImage& image, const FileIndex& index, bool durable);

}  // namespace reprieve::storage
