// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reads boxes of a checkpoint file and verifies them. Local: no MPI, no HDF5.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "storage/bytes/checksum.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/bytes/readers.hpp"
#include "storage/format/blocks.hpp"
#include "storage/format/dataset.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// What takes one piece of bytes after the other.
using UseBytes = std::function<void(std::span<const std::byte> piece)>;

/// Where the bytes of a checkpoint come from, if not from its file. Local: no MPI. Used by one thread at a time.
class BlockSource {
 public:
  BlockSource() = default;
  virtual ~BlockSource() = default;
  BlockSource(const BlockSource&) = delete;
  BlockSource& operator=(const BlockSource&) = delete;

  /// Gives @p use the @p size bytes of block @p number of a row, its elements side by side in C order.
  /// @throws CorruptError if they cannot be had
  virtual void for_each_piece(const StoredVariable& variable, const BoxRow& row, std::uint64_t number, std::size_t size,
                              const UseBytes& use) const = 0;
};

class BlockReader {
 public:
  /// Keeps references to both. With @p verify, the checksum of every block that is touched is compared; a block that
  /// differs is read once more past the page cache before it counts as corrupt.
  BlockReader(const PosixFile& file, const FileIndex& index, bool verify)
      : file_(&file), name_(file.path().string()), index_(index), verify_(verify), reader_(std::in_place, file) {}

  /// Reads blocks from elsewhere. Keeps references to both. @param name  of the source, for messages
  BlockReader(const BlockSource& source, std::string name, const FileIndex& index, bool verify)
      : source_(&source), name_(std::move(name)), index_(index), verify_(verify) {}

  /// The whole file will be asked for, in the order in which it lies on the disk as far as that is known.
  void expect_all() {
    if (reader_) {
      reader_->expect(0, index_.file_size);
    }
  }

  /// A range of the file that will be asked for in small parts, most of it.
  void expect_small(std::uint64_t begin, std::uint64_t end) const noexcept;

  /// From now on what is read is counted there; null: nowhere.
  void count_in(ProgressLogger* news) noexcept { news_ = news; }

  /// The caller's boxes are likely to be those that this rank of the saving run had, in the same order: then they are
  /// found without a search.
  void expect_boxes_of(int saved_rank) noexcept { expected_rank_ = static_cast<std::uint64_t>(saved_rank); }

  /// Reads the whole box of a row of a variable without chunks, elements side by side in C order; @p content has the
  /// box's size. @param space  in which it lies; null: the host reaches it. On a device it is there after `finish`
  /// @throws CorruptError that names variable and region; StorageError
  void read_box(const StoredVariable& variable, const BoxRow& row, std::span<std::byte> content,
                MemorySpace* space = nullptr);

  /// Fills a box of a distributed variable, or of any dataset, from all stored boxes that meet it. Elements that nobody
  /// stored become zero. The stored boxes of each variable are sorted once, so a mesh of many boxes can be filled box
  /// by box. On a device they are there after `finish`. @throws as read_box
  void fill(const StoredVariable& variable, const BoxView<std::byte>& target);

  /// Waits for what is on its way to devices. @throws what their memory throws
  void finish() const { staging_.finish(); }

  /// Where a row lies in the file, if that is a few bytes side by side: one block.
  [[nodiscard]] static std::optional<Region> small_region(const StoredVariable& variable, const BoxRow& row);
  /// Reads a small row together with its neighbours. False: the caller must read it in the usual way, which also
  /// reports errors. @p content has the row's size
  [[nodiscard]] bool read_small(const StoredVariable& variable, const BoxRow& row, std::span<std::byte> content) const;
  /// The same wherever the bytes go. False: the caller must check the row in the usual way.
  [[nodiscard]] bool small_is_right(const StoredVariable& variable, const BoxRow& row) const;

  /// One block of a row.
  struct StoredBlock {
    const StoredVariable& variable;
    const BoxRow& row;
    std::uint64_t number = 0;  ///< of the block among those of the row
    const Box& block;
  };
  /// Reads one block, wherever its bytes go, and compares its checksum. @throws StorageError, CorruptError if the file
  /// ends too early
  [[nodiscard]] bool block_is_right(const StoredBlock& stored);
  /// The block in words.
  [[nodiscard]] static std::string region_of(const StoredVariable& variable, const BoxRow& row, const Box& block);

 private:
  /// Reads a block; false if it is not what was written, however often it is read.
  [[nodiscard]] bool read_right(const StoredBlock& stored, std::span<std::byte> content) const;
  /// The blocks of a row from @p first to @p last are what comes next.
  void expect(const StoredVariable& variable, const ChunkedSplit& split, std::uint64_t first, std::uint64_t last) const;
  /// Reads the block in the usual way, whatever that is.
  void read_once(const StoredBlock& stored, std::span<std::byte> content) const;
  [[nodiscard]] std::uint64_t expected_digest(const StoredBlock& stored) const;
  /// What a block takes in the file if it is compressed, else 0. @throws CorruptError if that is impossible
  [[nodiscard]] std::uint64_t compressed_size(const StoredBlock& stored) const;
  /// False if the bytes there are no compressed block.
  [[nodiscard]] bool read_compressed(const StoredBlock& stored, std::uint64_t size, std::span<std::byte> content,
                                     ReadFrom from) const;
  /// The same, as an error.
  void read_into(const StoredBlock& stored, std::span<std::byte> content) const;
  [[nodiscard]] std::span<std::byte> buffer_for(const StoredBlock& stored);
  void zero(const BoxView<std::byte>& target, std::size_t element_size) const;
  void fill_from(const StoredVariable& variable, const BoxRow& row, const BoxView<std::byte>& target);
  [[nodiscard]] bool fill_small(const StoredVariable& variable, const BoxRow& row,
                                const BoxView<std::byte>& target) const;
  /// The bytes of a small row, which are right if checksums are verified; empty: to be read in the usual way.
  [[nodiscard]] std::span<const std::byte> small(const StoredVariable& variable, const BoxRow& row) const;

  [[nodiscard]] std::optional<std::size_t> expected_row(const StoredVariable& variable, const Box& box);
  [[nodiscard]] const BoxSearch& search_of(const StoredVariable& variable);

  const PosixFile* file_ = nullptr;      ///< or null
  const BlockSource* source_ = nullptr;  ///< instead of the file
  std::string name_;
  const FileIndex& index_;
  bool verify_;
  ProgressLogger* news_ = nullptr;
  std::optional<std::uint64_t> expected_rank_;
  const StoredVariable* expected_of_ = nullptr;  ///< the variable of these rows
  RowRange expected_;                            ///< that are still to come
  const StoredVariable* searched_ = nullptr;     ///< the variable of `search_`
  std::optional<BoxSearch> search_;
  mutable Xxh3Stream digest_;                 ///< of the block that was read last
  mutable std::optional<FileReader> reader_;  ///< of the file
  mutable state::Staging staging_;
  mutable Bytes compressed_;
  Bytes buffer_;
};

/// Some blocks of a file: of the rows that ranks of the saving run wrote, those that are taken.
struct BlockShare {
  std::uint64_t first = 0;         ///< of these ranks
  std::uint64_t end = UINT64_MAX;  ///< before this one
  bool all_replicated = false;     ///< the rows of replicated variables too, whoever wrote them
  /// Whether a block is taken, by its variable, the rank that wrote it, and its number in the row.
  std::function<bool(const StoredVariable&, std::uint64_t, std::uint64_t)> takes = [](const auto&, auto, auto) {
    return true;
  };
};

/// The one loop that verifies: calls @p visit(stored, row) for each block of the share, until it says no. Small rows
/// are read together with their neighbours: for those that are right, @p passed(bytes) is called instead.
/// @throws what the two throw; StorageError, CorruptError if the file ends too early
template <class Visit, class Passed>
void for_each_block(const BlockReader& reader, const FileIndex& index, const BlockShare& share, Visit&& visit,
                    Passed&& passed) {
  for (const StoredVariable& variable : index.variables) {
    const bool takes_all = share.all_replicated && variable.distribution == state::Distribution::replicated;
    const RowRange rows = takes_all ? RowRange{0, variable.box_count} : index.rows_of(variable, share.first, share.end);
    for (std::size_t b = rows.begin; b < rows.end; ++b) {
      const BoxRow row = index.row(variable, b);
      if (share.takes(variable, row.rank, 0) && reader.small_is_right(variable, row)) {
        passed(volume(row.extent) * variable.type.size_bytes);
        continue;
      }
      const ChunkedSplit split = FileIndex::blocks_of(variable, row);
      for (std::uint64_t i = 0; i < split.count(); ++i) {
        if (!share.takes(variable, row.rank, i)) {
          continue;
        }
        const Box block = split.block(i);
        if (!visit(BlockReader::StoredBlock{variable, row, i, block}, b)) {
          return;
        }
      }
    }
  }
}

}  // namespace reprieve::storage
