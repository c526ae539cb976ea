// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Reading the variables of a file piece by piece, for those who cannot hold a whole one in memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "storage/bytes/posix_file.hpp"
#include "storage/format/file_index.hpp"
#include "storage/format/seal.hpp"

namespace reprieve::storage {

/// An open checkpoint file. Needs no MPI.
class VariableReader {
 public:
  /// @throws CorruptError, StorageError, MismatchError (a format of a later version)
  explicit VariableReader(const std::filesystem::path& file);

  /// Fills @p elements with a variable's elements from position @p first on, in C order; of a per-rank variable, those
  /// of one rank after the other. The data are taken as they are in the file: only `verify_file` compares checksums.
  /// @throws UsageError if there is no such variable or it does not have so many elements; CorruptError, StorageError
  void read(const std::string& variable, std::uint64_t first, std::span<std::byte> elements) const;

  /// What the file says about itself.
  [[nodiscard]] const FileIndex& index() const noexcept { return index_; }

  /// To be called when all is read: that it was of this checkpoint. @throws StorageError if a run has retired it
  void check_not_retired() const { storage::check_not_retired(file_, seal_); }

 private:
  void read_tiles(const StoredVariable& stored, std::uint64_t first, std::span<std::byte> elements) const;

  PosixFile file_;
  Bytes seal_;
  FileIndex index_;
};

}  // namespace reprieve::storage
