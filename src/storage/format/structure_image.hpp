// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A checkpoint file without its data: what HDF5 has laid out, the manifest and the table of boxes, as bytes that can
/// be kept, sent, and put into a file. Pure, but for the file that it is put into.

#include <cstdint>
#include <span>
#include <vector>

#include "storage/bytes/codec.hpp"
#include "storage/format/seal.hpp"

namespace reprieve::storage {

struct StructureImage {
  Seal seal;  ///< the digest of the checksums is missing: they come with the data
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

/// Writes the table of checksums and then the seal: with them the file is complete. @throws StorageError
void complete_file(const PosixFile& file, Seal seal, std::span<const std::uint64_t> checksums);

}  // namespace reprieve::storage
