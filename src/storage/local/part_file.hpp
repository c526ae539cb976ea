// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A part file: what one rank has of a node-local copy. In this order: a commit record of one page; the data, row after
/// row of the table of boxes of this rank, each row with its elements side by side; the head (JSON); the tables: where
/// each row begins, the checksums of its blocks, and on rank 0 the structure of the whole file. The commit record is
/// written last: with it the part is complete. And all parts together: their blocks for a restore, and one file made of
/// them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/directory.hpp"
#include "core/memory.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/bytes/readers.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/format/file_index.hpp"
#include "storage/read/block_reader.hpp"
#include "storage/write/write_item.hpp"

namespace reprieve::storage {

/// A checkpoint that lies as one part for each rank in the memory of the nodes. Parts belong together if they are equal
/// in all of this.
struct LocalCopy {
  SaveIdentity save;                ///< orders copies and checkpoints of a directory
  std::string launch;               ///< the random mark of the launch that took it
  std::uint64_t directory_key = 0;  ///< of the checkpoint directory: a copy of it has the same id, and another key
  std::string prefix;
  std::uint64_t number = 0;  ///< of the checkpoint that it would be
  std::optional<std::uint64_t> run_calls;
  std::int64_t time_us = 0;  ///< wall clock, microseconds since 1970
  int ranks = 0;
  std::uint64_t layout_digest = 0;  ///< of the structure that the file would have
  /// The newest checkpoint that was in the directory.
  std::uint64_t known_run = 0;
  std::uint64_t known_save = 0;  ///< 0: there was none

  [[nodiscard]] std::uint64_t step() const { return run_calls.value_or(number); }

  friend bool operator==(const LocalCopy&, const LocalCopy&) = default;
};

/// One of its parts.
struct PartName {
  LocalCopy copy;
  int rank = 0;

  friend bool operator==(const PartName&, const PartName&) = default;
};

constexpr auto fields_of(const LocalCopy*) {
  using T = LocalCopy;
  return std::tuple(&T::save, &T::launch, &T::directory_key, &T::prefix, &T::number, &T::run_calls, &T::time_us,
                    &T::ranks, &T::layout_digest, &T::known_run, &T::known_save);
}
constexpr auto fields_of(const PartName*) { return std::tuple(&PartName::copy, &PartName::rank); }

[[nodiscard]] nlohmann::json to_json(const PartName& part);

/// Where the data of a part begin.
inline constexpr std::uint64_t kPartDataOffset = kCommitRecordBytes;

/// What a part says besides its data.
struct PartTables {
  std::vector<std::uint64_t> rows;       ///< where each row that is not empty begins, from the begin of the data
  std::vector<std::uint64_t> checksums;  ///< of all blocks, in the order of the rows
  std::optional<StructureImage> image;   ///< rank 0's
};

/// Makes a file for a part, for this user alone, and locks it, so that nobody takes it for one of a dead run.
/// @throws StorageError, also if there is one of that name
[[nodiscard]] PosixFile make_part_file(const core::Directory& directory, const std::string& name);

/// Writes head, tables and commit record behind the data. Where the file lies on a disk, in such an order that a power
/// cut leaves no commit record without what it stands for. `void_commit_record` undoes it.
/// @param data_bytes  what the data take @throws StorageError
void complete_part(const PosixFile& file, std::uint64_t data_bytes, const PartName& name, const PartTables& tables);

/// Which part a file is. Reads a few kilobytes. @throws CorruptError if it is none, or not complete; StorageError
[[nodiscard]] PartName read_part_name(const PosixFile& file);

/// A part that can be read. Its file stays open.
class Part {
 public:
  /// Compares the digests of head and tables. @throws CorruptError, StorageError
  explicit Part(PosixFile file);

  [[nodiscard]] const PartName& name() const noexcept { return name_; }
  [[nodiscard]] const PartTables& tables() const noexcept { return tables_; }
  [[nodiscard]] std::uint64_t data_bytes() const noexcept { return data_bytes_; }
  /// @throws StorageError
  [[nodiscard]] std::uint64_t file_bytes() const { return file_.size(); }

  /// Gives @p use some of the data. @param offset  from the begin of the data
  /// @throws StorageError, CorruptError if the data end before that; std::bad_alloc
  void for_each_piece(std::uint64_t offset, std::uint64_t size, const UseBytes& use) const;
  /// All data, to be read: mapped where the file lies in memory. A file on a disk is never mapped: an error of the disk
  /// would end the process by a signal. @throws StorageError, CorruptError; std::bad_alloc
  [[nodiscard]] core::Mapping data() const;

 private:
  PosixFile file_;
  PartName name_;
  PartTables tables_;
  std::uint64_t data_bytes_ = 0;
};

/// The file of one part, which is written over and over: locked while this lives, so that nobody takes it for one of a
/// dead run. It holds a part of this rank, or in memory one of a rank on another host, which comes piece by piece. Used
/// by one thread at a time. Members throw StorageError and std::bad_alloc.
class PartSlot {
 public:
  /// Makes the file. @param directory  lives as long as this
  PartSlot(const core::Directory& directory, const std::string& name);

  /// Whether its file can be found by a name. @throws StorageError
  [[nodiscard]] bool has_name() const { return file_.status().st_nlink > 0; }

  /// What it has for data. More is taken by `copy`.
  [[nodiscard]] std::size_t capacity() const noexcept { return memory_.bytes().size(); }

  /// Copies what the items refer to, and lets them refer to the copy. The part that the slot held is void.
  void copy(std::span<WriteItem> items);

  /// Voids the part that it holds. @throws StorageError
  void make_void() const { void_commit_record(file_); }
  /// The whole file, with a complete part in it. Of one in memory. It stays while this lives and `whole` is not called.
  /// @throws StorageError, std::bad_alloc
  [[nodiscard]] std::span<std::byte> whole();

  /// Completes the part: checksums, tables, commit record. @param items  as `copy` has left them
  /// @throws StorageError  also if somebody has cut the file meanwhile
  void complete(std::span<const WriteItem> items, const PartName& name, std::optional<StructureImage> image);

  /// A part of another host comes. The part that the slot held is void. @param size  of the whole file
  void begin_receiving(std::size_t size);
  /// Where the bytes behind its commit record belong.
  [[nodiscard]] std::span<std::byte> received() const noexcept { return memory_.bytes().first(used_); }
  /// Makes it a part. @param commit record  the first bytes of the file
  void commit_received(std::span<const std::byte> commit_record);

 private:
  void make_room(std::size_t size);
  [[nodiscard]] bool is_cut() const;
  void check_not_cut() const;

  PosixFile file_;
  core::Mapping memory_;
  core::Mapping whole_;  ///< kept, since the first read of each page of a mapping is slow
  bool in_memory_;
  std::size_t used_ = 0;
  std::vector<std::uint64_t> rows_;
};

/// A row of the table of boxes that is not empty. Its elements lie side by side.
struct PartRow {
  std::uint64_t first_checksum = 0;  ///< which no other row has
  std::uint64_t offset = 0;          ///< from the begin of the data
};

/// What this process can reach of a node-local copy.
class PartsSource final : public BlockSource {
 public:
  /// Rows that lie in a part. It is kept open. @throws CorruptError that names the rank, if it is not of that file
  void add(std::shared_ptr<const Part> part, const FileIndex& index);
  /// Rows that another process has sent. @param data  to which their offsets belong @param owner  keeps that memory
  void add(const std::vector<PartRow>& rows, std::span<const std::byte> data, std::shared_ptr<const void> owner);

  /// Whether the data of this row are here. An empty row always is.
  [[nodiscard]] bool has(const StoredVariable& variable, const BoxRow& row) const;

  void for_each_piece(const StoredVariable& variable, const BoxRow& row, std::uint64_t number, std::size_t size,
                      const UseBytes& use) const override;

 private:
  /// Data of a part: its file, or memory that another process has sent.
  struct Data {
    std::shared_ptr<const Part> part;
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  ///< of the bytes
  };
  struct Row {
    std::shared_ptr<const Data> data;
    std::uint64_t offset = 0;
  };

  void add(const std::vector<PartRow>& rows, Data data);
  [[nodiscard]] std::uint64_t offset_in_row(const StoredVariable& variable, const BoxRow& row,
                                            std::uint64_t number) const;

  std::map<std::uint64_t, Row> rows_;  ///< by their first checksums
  // Where the blocks of the row begin that was read last.
  mutable std::uint64_t row_of_offsets_ = UINT64_MAX;
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
