// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Chunks that may be compressed, as HDF5 knows them: their filter, and the index that says where each lies and how
/// long it is. HDF5 makes the index; its entries are rewritten with each save. Local.

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/bytes/posix_file.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// HDF5 does not look for filters among its plugins while this lives: it would compress what is not there yet.
class NoPlugins {
 public:
  NoPlugins();
  ~NoPlugins();
  NoPlugins(const NoPlugins&) = delete;
  NoPlugins& operator=(const NoPlugins&) = delete;

 private:
  unsigned loads_ = 0;
};

/// False if this program has Blosc as a filter of its own: then HDF5 would compress by itself.
[[nodiscard]] bool can_lay_out_compressed();

/// Chunks made with these properties may be compressed by Blosc.
void add_filter(hid_t creation, const StoredVariable& variable);

/// No less than an index takes in the file.
[[nodiscard]] std::uint64_t most_index_bytes(const StoredVariable& variable);

/// The indexes of all variables with such chunks, in a file that is laid out.
class ChunkIndexes {
 public:
  /// Finds them. @param structure  where they lie @throws Error (internal) if HDF5 has made another kind of index
  ChunkIndexes(const PosixFile& layout, std::span<const Region> structure, const FileIndex& index);

  /// Writes the entries of all chunks. @param compressed  with the sizes in @p index; otherwise as they are
  void write(const PosixFile& layout, const FileIndex& index, bool compressed) const;

 private:
  /// A "fixed array" with an entry for each chunk: address, size and filters that were left out. (HDF5 File Format
  /// Specification, version 3.0, "Fixed Array Index".)
  struct Array {
    std::size_t variable = 0;  ///< position in the index of the file
    std::uint64_t entries = 0;
    std::uint64_t entry_bytes = 0;
    std::uint64_t page_entries = 0;  ///< with more entries, they lie in pages
    std::uint64_t offset = 0;        ///< of the first page, or of what is before the entries of the only one
    std::uint64_t before = 0;        ///< so many bytes of that
  };
  [[nodiscard]] static std::optional<Array> array_at(const PosixFile& layout, std::span<const std::byte> header,
                                                     const FileIndex& index);
  static void write(const PosixFile& layout, const Array& array, const FileIndex& index, bool compressed);

  std::vector<Array> arrays_;
};

}  // namespace reprieve::storage
