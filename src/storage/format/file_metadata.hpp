// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What a checkpoint file says about the save that made it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "reprieve/save.hpp"

namespace reprieve::storage {

/// Which save of which directory a file is. The newest of a directory is the greatest by run, then by save.
struct SaveIdentity {
  std::string directory_id;
  std::uint64_t run = 0;   ///< the start in this directory, counted from 1
  std::uint64_t save = 0;  ///< the save in this directory, counted from 1 over all runs and prefixes

  friend bool operator==(const SaveIdentity&, const SaveIdentity&) = default;
};

/// Metadata of a checkpoint file besides its variables.
struct FileMetadata {
  int format_version = 0;
  std::uint64_t number = 0;
  std::optional<std::uint64_t> run_calls;  ///< nothing if no handler lived when it was saved
  std::optional<SaveIdentity> identity;    ///< nothing in files of versions that did not have it
  int world_size = 0;
  std::int64_t time_us = 0;  ///< wall clock, microseconds since 1970
  SaveReason reason;
  /// What must be the same in the run that restores it, by name (`Checkpoint::add_constant`).
  std::map<std::string, std::string> constants;
  bool has_files = false;  ///< the chief's save function left files beside the checkpoint
  std::string library_version;
  std::string mpi_version;
  std::string hdf5_version;
};

}  // namespace reprieve::storage
