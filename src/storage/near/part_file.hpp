// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A part file: what one rank has of a near copy. In this order: a seal of one page; the data, row after row of the
/// table of boxes of this rank, each row with its elements side by side; the head (JSON, near_copy.hpp); the tables:
/// where each row begins, the checksums of its blocks, and on rank 0 the structure of the whole file. The seal is
/// written last: with it the part is complete.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/directory.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/bytes/staged_reader.hpp"
#include "storage/format/structure_image.hpp"
#include "storage/near/near_copy.hpp"
#include "storage/near/part_memory.hpp"

namespace reprieve::storage {

/// Where the data of a part begin.
inline constexpr std::uint64_t kPartDataOffset = kSealBytes;

/// What a part says besides its data.
struct PartTables {
  std::vector<std::uint64_t> rows;       ///< where each row that is not empty begins, from the begin of the data
  std::vector<std::uint64_t> checksums;  ///< of all blocks, in the order of the rows
  std::optional<StructureImage> image;   ///< rank 0's
};

/// Makes a file for a part, for this user alone, and locks it, so that nobody takes it for one of a dead run.
/// @throws StorageError, also if there is one of that name
[[nodiscard]] PosixFile make_part_file(const core::Directory& directory, const std::string& name);

/// Writes head, tables and seal behind the data. Where the file lies on a disk, in such an order that a power cut
/// leaves no seal without what it stands for. @param data_bytes  what the data take @throws StorageError
void complete_part(const PosixFile& file, std::uint64_t data_bytes, const PartName& name, const PartTables& tables);

/// From now on the file is no part. @throws StorageError
void void_part(const PosixFile& file);

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

  /// Some of the data. Where the file lies in memory this is faster than to map it: each page that is looked at for the
  /// first time in a mapping costs more than its copy. Measured in a virtual machine with 256 MiB and their checksum:
  /// 43 ms in pieces of 256 KiB, 180 ms in a mapping. @param offset  from the begin of the data
  /// @throws StorageError, CorruptError if the data end before that
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  /// The same of much. @param digest  to which the bytes are added, if there is one
  void read(std::uint64_t offset, std::span<std::byte> into, Xxh3Stream* digest, StagedReader& staged) const;
  /// All data. @throws StorageError, CorruptError; std::bad_alloc
  [[nodiscard]] PartMemory data() const;

 private:
  PosixFile file_;
  PartName name_;
  PartTables tables_;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace reprieve::storage
