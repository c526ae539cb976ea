// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A checkpoint file as the functions of the user see it that make state from it by themselves.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "devices/spaces.hpp"
#include "reprieve/stored_state.hpp"
#include "storage/format/file_index.hpp"
#include "storage/read/block_reader.hpp"

namespace reprieve::storage {

/// Local: every rank reads for itself.
class StoredCheckpoint final : public StoredState {
 public:
  /// Keeps references to both.
  StoredCheckpoint(BlockReader& reader, const FileIndex& index) : reader_(reader), index_(index) {}

  [[nodiscard]] std::vector<std::string> names() const override;
  [[nodiscard]] bool contains(const std::string& name) const override;
  [[nodiscard]] ElementType type(const std::string& name) const override;
  [[nodiscard]] Extents shape(const std::string& name) const override;
  [[nodiscard]] const PerRankPieces& pieces(const std::string& name) const override;
  void read_value(const std::string& name, ValueAccess& value) const override;
  void read_distributed(const std::string& name, const DistributedArray& array) const override;

  /// What a value that one rank wrote gets: the memory that it prepares, filled; its `commit` is the caller's.
  /// @param named  the space that was set for its memory, or null
  void read_box(const StoredVariable& variable, std::size_t box, ValueAccess& value,
                const devices::Spaces& spaces = devices::Spaces(), MemorySpace* named = nullptr) const;
  /// The bytes that a value had in memory. Reads and verifies them.
  [[nodiscard]] Bytes content_of(const StoredVariable& variable, const BoxRow& row) const;
  /// Fills the boxes of an array that fits.
  void fill(const StoredVariable& variable, const DistributedArray& array) const;

  [[nodiscard]] const FileIndex& index() const noexcept { return index_; }

 private:
  [[nodiscard]] const StoredVariable& find(const std::string& name) const;
  [[nodiscard]] const StoredVariable& find(const std::string& name, state::Distribution distribution) const;

  BlockReader& reader_;
  const FileIndex& index_;
  mutable std::map<std::string, std::unique_ptr<PerRankPieces>> pieces_;  ///< those that were asked for
};

// What a rank gets back of distributed variables whose boxes overlap (format/shared_copies.hpp): its own copies, as
// long as it has the boxes that it had when it saved them.

/// Whether the file has copies of a variable, saved by as many ranks as there are now.
[[nodiscard]] bool has_copies(const FileIndex& index, const StoredVariable& variable, int ranks);

/// Whether this rank had these boxes, in this order, when the file was written. @throws CorruptError, StorageError
[[nodiscard]] bool had_these_boxes(const StoredCheckpoint& stored, const StoredVariable& variable,
                                   const DistributedArray& array, int rank);

/// Puts this rank's own copies into its boxes, which are those that it had. @throws CorruptError, StorageError
void restore_copies(const StoredCheckpoint& stored, const StoredVariable& variable, const DistributedArray& array,
                    int rank);

}  // namespace reprieve::storage
