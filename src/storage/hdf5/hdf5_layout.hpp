// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Lays out a checkpoint file with HDF5: every dataset with its address and description, but no data.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "storage/bytes/posix_file.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/format/dataset.hpp"
#include "storage/format/file_index.hpp"
#include "storage/hdf5/chunk_index.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::storage {

/// A file that has been laid out in memory, from where its structure can be put on disk any number of times.
///
/// HDF5 works on a file in memory, from which all but the data is then copied: HDF5 1.10 cannot survive an I/O error
/// when it closes a file (it crashes in MPI_Finalize), and its thousands of small writes cost nothing there. Making
/// thousands of datasets takes it tens of milliseconds; so a layout is kept from save to save, with other metadata.
/// Local, on the thread that may call HDF5.
class LaidOutFile {
 public:
  /// Makes a dataset for every variable of @p index, contiguous or in chunks, the manifest and the tables. In the
  /// index, fills in the file offsets and the file size.
  /// @throws StorageError
  explicit LaidOutFile(FileIndex index);

  /// The same without HDF5, where @p model is a file of just these variables and boxes, made by the same versions of
  /// this library and of HDF5. Its structure is read, compared with its digest, and given the metadata of @p index.
  /// @param stored  what that file says about itself; may be taken
  /// @return  null if the file is of another kind
  /// @throws CorruptError, StorageError, MismatchError
  [[nodiscard]] static std::unique_ptr<LaidOutFile> like(const PosixFile& model, FileIndex& stored,
                                                         const FileIndex& index);

  /// Gives the file other metadata. False if there is no room for them: then a new layout is needed.
  [[nodiscard]] bool replace_metadata(const FileMetadata& metadata);

  /// Creates @p file (replacing one of that name), takes the disk space for all data, and writes the structure.
  /// @param recycle  write over the blocks of the file that is there. Not done for a state with elements that no rank
  /// holds: they must be zero.
  /// @param shares_pages  ranks write a few kilobytes each into the same pages
  /// @throws StorageError; no_space with the bytes needed and available, before anything is written
  /// Returns whether it was that.
  bool put_on_disk(const core::FileAddress& file, bool recycle, bool shares_pages);

  /// Writes the structure into @p target once more, with the sizes of compressed chunks that the index has by now.
  /// Nothing if no array may be compressed.
  void write_chunk_sizes(const PosixFile& target);

  /// The structure, with its digest, for a file that somebody else makes of it.
  [[nodiscard]] StructureImage image() const;

  [[nodiscard]] const FileIndex& index() const noexcept { return index_; }
  [[nodiscard]] FileIndex& index() noexcept { return index_; }
  /// As far as it is known before the data, when the file is on disk: the digest of the checksums is missing.
  [[nodiscard]] const CommitRecord& commit_record() const noexcept { return commit_record_; }

 private:
  LaidOutFile(FileIndex stored, const PosixFile& model, const CommitRecord& commit_record);

  FileIndex index_;
  PosixFile layout_;
  CommitRecord commit_record_;
  std::size_t fields_bytes_ = 0;  ///< of the manifest: what comes before the list of variables
  std::vector<Region> regions_;
  /// Their entries say that no chunk is compressed: so it is where node-local copies become a file.
  std::optional<ChunkIndexes> chunk_indexes_;
  bool covered_ = false;
};

/// No less than a file with this index will take. A process that may not make files of that size must not lay it out.
[[nodiscard]] std::uint64_t most_file_bytes(const FileIndex& index);

// What variables mean, in HDF5's terms: attributes of their datasets, and dimension scales (hdf5_annotations.cpp).

/// The metadata once more, as attributes of a group, which HDF5 tools show at once. Reprieve itself reads the manifest.
/// Makes the attributes, or gives those that are there other values. The size of each does not depend on its value, so
/// that another one can replace it. A longer text is cut. @throws StorageError
enum class Attributes : std::uint8_t { create, replace };
void write_metadata_attributes(hid_t group, const FileMetadata& metadata, Attributes mode);

/// Gives the datasets of a file that is being laid out their attributes, and makes the scales. Scales that are not
/// variables have a length, and take no space for data.
/// @param state  the group /state, in which all datasets exist
void write_annotations(hid_t state, const FileIndex& index);

/// No less than they will take in the file.
[[nodiscard]] std::uint64_t most_annotation_bytes(const FileIndex& index);

}  // namespace reprieve::storage
