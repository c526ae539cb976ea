// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tools ask of a checkpoint file. Serial; needs neither MPI nor HDF5.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/directory.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::storage {

/// Reads the metadata: the commit record and the manifest, and nothing else. Not collective.
/// @throws CorruptError, StorageError; MismatchError for a future format version
FileMetadata read_metadata(const core::FileAddress& file);

/// One variable as the tools show it. Its shape, if each rank has its own, is the number of elements of all together.
struct VariableInfo : VariableFacts {
  std::vector<Extents> rank_shapes{};  ///< per-rank variables: the shape on each rank
  std::uint64_t bytes = 0;
  Extents chunk{};                  ///< the shape of the chunks in which it lies in the file; empty: none
  std::uint64_t compressed_by = 0;  ///< what compression has saved of the bytes
};

/// The variables of a checkpoint that is known by its index, sorted by name.
std::vector<VariableInfo> list_variables(const FileIndex& index);

/// Lists the variables, sorted by name. Not collective. @throws as read_metadata
std::vector<VariableInfo> list_variables(const std::filesystem::path& file);

/// A corrupt region.
struct Corruption {
  std::string variable;  ///< empty: the file as a whole
  std::string region;    ///< human-readable: "elements [0:512, 0:64] written by rank 3"
  std::string problem;
};

/// Verifies every checksum. Not collective. Returns all corruption found; empty if the file is valid. Does not throw
/// for corruption, only StorageError if the file cannot be read at all, or if it was retired meanwhile. @p progress, if
/// given, is called with bytes done and bytes in all.
std::vector<Corruption> verify_file(const std::filesystem::path& file,
                                    const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});

/// Reads the whole of one variable into memory, verified, elements in C order. Not collective.
/// @throws CorruptError, StorageError, UsageError if there is no such variable
std::vector<std::byte> read_variable(const std::filesystem::path& file, const std::string& name);

class BlockReader;

/// Reads the variables of a file piece by piece, for those who cannot hold a whole one in memory. Needs no MPI.
class VariableReader {
 public:
  /// @throws CorruptError, StorageError, MismatchError (a format of a later version)
  explicit VariableReader(const std::filesystem::path& file);
  ~VariableReader();
  VariableReader(const VariableReader&) = delete;
  VariableReader& operator=(const VariableReader&) = delete;

  /// Fills @p elements with a variable's elements in @p box, in C order. The data are taken as they are in the file:
  /// only `verify_file` compares checksums. Cost: a compressed chunk is read as a whole, so boxes follow the chunks
  /// best.
  /// @throws UsageError if there is no such variable or it is smaller; CorruptError, StorageError
  void read(const std::string& variable, const Box& box, std::span<std::byte> elements) const;
  /// The same of the elements from position @p first on; of a per-rank variable, those of one rank after the other.
  void read(const std::string& variable, std::uint64_t first, std::span<std::byte> elements) const;

  /// What the file says about itself.
  [[nodiscard]] const FileIndex& index() const noexcept { return index_; }

  /// To be called when all is read: that it was of this checkpoint. @throws StorageError if a run has retired it
  void check_not_retired() const { storage::check_not_retired(file_, commit_record_); }

 private:
  [[nodiscard]] const StoredVariable& find(const std::string& variable) const;

  PosixFile file_;
  Bytes commit_record_;
  FileIndex index_;
  std::unique_ptr<BlockReader> compressed_;  ///< for chunks; knows which boxes the last variable has
};

}  // namespace reprieve::storage
