// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tools ask of a checkpoint file. Serial; needs neither MPI nor HDF5.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/file_address.hpp"
#include "storage/format/file_index.hpp"
#include "storage/format/file_metadata.hpp"
#include "storage/format/variable_facts.hpp"

namespace reprieve::storage {

/// Reads the metadata: the seal and the manifest, and nothing else. Not collective.
/// @throws CorruptError, StorageError; MismatchError for a future format version
FileMetadata read_metadata(const core::FileAddress& file);

/// One variable as the tools show it. Its shape, if each rank has its own, is the number of elements of all together.
struct VariableInfo : VariableFacts {
  std::vector<Extents> rank_shapes{};  ///< per-rank variables: the shape on each rank
  std::uint64_t bytes = 0;
  Extents tile{};  ///< the shape of the tiles in which it lies in the file; empty: none
};

/// The variables of a checkpoint that is known by its index, sorted by name.
std::vector<VariableInfo> list_variables(const FileIndex& index);

/// Lists the variables, sorted by name. Not collective. @throws as read_metadata
std::vector<VariableInfo> list_variables(const std::filesystem::path& file);

/// A damaged place.
struct Damage {
  std::string variable;  ///< empty: the file as a whole
  std::string region;    ///< human-readable: "elements [0:512, 0:64] written by rank 3"
  std::string problem;
};

/// Verifies every checksum. Not collective. Returns all damage found; empty if the file is sound. Does not throw for
/// damage, only StorageError if the file cannot be read at all, or if it was retired meanwhile. @p progress, if given,
/// is called with bytes done and bytes in all.
std::vector<Damage> verify_file(const std::filesystem::path& file,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});

/// Reads the whole of one variable into memory, verified, elements in C order. Not collective.
/// @throws CorruptError, StorageError, UsageError if there is no such variable
std::vector<std::byte> read_variable(const std::filesystem::path& file, const std::string& name);

}  // namespace reprieve::storage
