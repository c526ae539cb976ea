#pragma once

/// @file
/// Reads boxes of a checkpoint file and verifies them. Local: no MPI, no HDF5.

#include <optional>
#include <span>
#include <string>

#include "storage/block_io.hpp"
#include "storage/box_search.hpp"
#include "storage/file_index.hpp"
#include "storage/posix_file.hpp"

namespace reprieve::storage {

class BlockReader {
 public:
  /// Keeps references to both. With @p verify, the checksum of every block that is touched is compared.
  BlockReader(const PosixFile& file, const FileIndex& index, bool verify)
      : file_(file), index_(index), verify_(verify) {}

  /// Reads the whole box of a row, elements side by side in C order; @p content has the box's size.
  /// @throws CorruptError that names variable and region; StorageError
  void read_box(const StoredVariable& variable, const BoxRow& row, std::span<std::byte> content) const;

  /// Fills a box of a distributed variable, or of any dataset, from all stored boxes that meet it. Elements that nobody
  /// stored become zero. Boxes are found by their places, which are looked at once for each variable, so that a mesh of
  /// many boxes can be filled box by box. @throws as read_box
  void fill(const StoredVariable& variable, const BoxView<std::byte>& target);

  /// Compares the checksum of every block of a row; @p found gets the region of each block that differs, and @p done
  /// the size of each block after it was read. @throws StorageError, CorruptError if the file ends too early
  template <class Found, class Done>
  void check_box(const StoredVariable& variable, const BoxRow& row, Found&& found, Done&& done) {
    const Box box = FileIndex::dataset_box(variable, row);
    const BlockSplit split(box, variable.type.size_bytes);
    for (std::uint64_t i = 0; i < split.count(); ++i) {
      const Box block = split.block(i);
      const auto content = read(variable, block);
      if (!matches(row, i)) {
        found(region_of(variable, row, block));
      }
      done(content.size());
    }
  }

 private:
  [[nodiscard]] std::span<const std::byte> read(const StoredVariable& variable, const Box& block);
  void read_into(const StoredVariable& variable, const Box& block, std::span<std::byte> content) const;
  /// Whether the block that was read last is that one.
  [[nodiscard]] bool matches(const BoxRow& row, std::uint64_t block) const;
  void verify(const StoredVariable& variable, const BoxRow& row, std::uint64_t number, const Box& block) const;
  void fill_from(const StoredVariable& variable, const BoxRow& row, const BoxView<std::byte>& target);
  [[nodiscard]] static std::string region_of(const StoredVariable& variable, const BoxRow& row, const Box& block);

  [[nodiscard]] const BoxSearch& places_of(const StoredVariable& variable);

  const PosixFile& file_;
  const FileIndex& index_;
  bool verify_;
  const StoredVariable* searched_ = nullptr;  ///< the variable of which the places are known
  std::optional<BoxSearch> places_;
  mutable Xxh3Stream digest_;  ///< of the block that was read last
  Bytes buffer_;
};

}  // namespace reprieve::storage
