// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The commit record: the first 4096 bytes of a checkpoint file, which HDF5 leaves alone (a "user block"). It is
/// written last, so that it is also the mark of a complete file, and it guards every byte outside of the variables'
/// data.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "storage/bytes/posix_file.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// The words of a commit record, of a checkpoint or of a part of a node-local copy; the last is the digest of the rest.
struct CommitWords : std::array<std::uint64_t, kCommitRecordBytes / sizeof(std::uint64_t)> {
  void put(std::size_t word, const GuardedRegion& guarded);
  [[nodiscard]] GuardedRegion get(std::size_t word) const;
  [[nodiscard]] bool is_intact() const;
  /// With their digest.
  void write_to(const PosixFile& file);
};

/// @throws UsageError if the tables are larger than a reader takes: known as soon as the file is laid out
void check_table_sizes(const std::string& file_name, const CommitRecord& commit_record);

void write_commit_record(const PosixFile& file, const CommitRecord& commit_record);

/// Makes sure that @p file has no commit record, neither now nor after a power cut: from then on it is not a
/// checkpoint, whatever else it holds. Costs nothing if there was none.
/// @return  the file's status right after that @throws StorageError
struct stat void_commit_record(const PosixFile& file);

/// @throws CorruptError if the file is not a complete checkpoint, or not as long as it was, or the commit record is
/// corrupt; MismatchError if the file has a format version that this library does not know
[[nodiscard]] CommitRecord read_commit_record(const PosixFile& file);

/// The bytes of the commit record as they are now, whatever they say; fewer of a file that is shorter. @throws
/// StorageError
[[nodiscard]] Bytes commit_record_bytes(const PosixFile& file);
/// Whether these are as `void_commit_record` leaves them.
[[nodiscard]] bool is_void(const Bytes& commit_record);
/// Whether nothing in the file shows that it was ever a checkpoint: neither the mark of a commit record, nor HDF5's
/// signature where a checkpoint has it. Zeros at the beginning may be what a power cut has left. @throws StorageError
[[nodiscard]] bool is_foreign(const PosixFile& file);
/// A run that lives retires its old checkpoints, also one that somebody reads on another node, and may write the next
/// one over it. A retired file loses its name first and then its commit record, before anything else in it changes; so
/// what was read before this call is of the checkpoint if it returns.
/// @param commit_record_at_begin  from before all that was read
/// @throws StorageError if the name is gone or is that of another file now, or if the commit record is not the same any
/// more
void check_not_retired(const PosixFile& file, const Bytes& commit_record_at_begin);

/// The same as `read_in_pieces` for all of these regions: calls @p use(piece, offset).
template <class Use>
void for_each_piece(const PosixFile& file, const std::vector<Region>& regions, Use&& use) {
  for (const Region& region : regions) {
    std::uint64_t offset = region.offset;
    read_in_pieces(file, region.offset, region.size, [&](std::span<const std::byte> piece) {
      use(piece, offset);
      offset += piece.size();
    });
  }
}

/// Where the bytes lie that `CommitRecord::structure_digest` guards.
[[nodiscard]] std::vector<Region> structure_regions(const FileIndex& index, const Region& checksums);

/// The digest that belongs into `CommitRecord::structure_digest`, of the file as it is now.
[[nodiscard]] std::uint64_t structure_digest(const PosixFile& file, const FileIndex& index, const Region& checksums);

/// The manifest alone, whatever the other tables hold. @throws CorruptError, StorageError
[[nodiscard]] Bytes read_manifest_bytes(const PosixFile& file, const CommitRecord& commit_record);

/// What the tables of a file take in memory: of boxes, of checksums, and the manifest, one after the other.
/// @throws CorruptError if they do not lie in the file
[[nodiscard]] std::size_t table_bytes(const PosixFile& file, const CommitRecord& commit_record);
/// Reads them and compares their digests. @param tables  of that size @throws CorruptError, StorageError
void read_tables(const PosixFile& file, const CommitRecord& commit_record, std::span<std::byte> tables);
/// These tables as an index. @param tables  at an address for words @param owner  of their memory
[[nodiscard]] IndexBytes index_bytes(const CommitRecord& commit_record, std::span<const std::byte> tables,
                                     std::shared_ptr<const void> owner);

/// All of that, into memory of its own; the boxes keep that of the manifest. @throws CorruptError, StorageError
[[nodiscard]] IndexBytes read_index_bytes(const PosixFile& file, const CommitRecord& commit_record);

/// All of the above: what the file says about itself.
[[nodiscard]] FileIndex read_index(const PosixFile& file);

/// A checkpoint file without its data: what HDF5 has laid out, the manifest and the table of boxes, as bytes that can
/// be kept, sent, and put into a file. Pure, but for the file that it is put into.
struct StructureImage {
  CommitRecord commit_record;  ///< the digest of the checksums is missing: they come with the data
  std::vector<Region> regions;
  Bytes content;  ///< of the regions, one after the other

  /// Makes @p file, which is empty, as long as the checkpoint will be, takes the space, and writes the structure.
  /// @throws StorageError
  void put_into(const PosixFile& file) const;

  /// What the file will say about itself, with checksums that are all zero. @throws CorruptError
  [[nodiscard]] FileIndex index(const std::string& file_name) const;

 private:
  [[nodiscard]] std::span<const std::byte> part(const Region& region) const;
};

[[nodiscard]] Bytes encode(const StructureImage& image);
/// @throws CorruptError
[[nodiscard]] StructureImage decode_structure_image(std::span<const std::byte> bytes);

/// Writes the table of checksums, with the sizes of compressed blocks, and keeps its digest in the commit record.
/// @throws StorageError
void write_checksums(const PosixFile& file, CommitRecord& commit_record, const FileIndex& index);

}  // namespace reprieve::storage
