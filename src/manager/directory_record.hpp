// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// `.reprieve.directory`: what a checkpoint directory remembers besides its checkpoints. No MPI.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/directory.hpp"

namespace reprieve::manager {

inline constexpr const char* kRecordName = ".reprieve.directory";

/// A run that said that it is finished.
struct FinishedRun {
  std::uint64_t run_calls = 0;
  /// The newest checkpoint at that moment; 0 if there was none. When it is not the newest any more, something was saved
  /// or removed since, and the run is not finished any more.
  std::uint64_t run = 0;
  std::uint64_t save = 0;

  friend bool operator==(const FinishedRun&, const FinishedRun&) = default;
};

struct DirectoryRecord {
  std::string id;           ///< unlike that of any other directory; a copy of the whole directory keeps it
  std::uint64_t run = 0;    ///< the starts so far
  std::uint64_t saves = 0;  ///< save counters up to this one may have been given out
  std::map<std::string, FinishedRun> finished;  ///< by prefix

  friend bool operator==(const DirectoryRecord&, const DirectoryRecord&) = default;
};

/// A new id: 24 hexadecimal digits.
std::string make_directory_id();

/// Nothing if there is none. One that makes no sense counts as none, with a warning.
/// @throws StorageError if it cannot be read
std::optional<DirectoryRecord> read_directory_record(const core::Directory& directory);

/// Replaces it atomically. @throws StorageError
void write_directory_record(const core::Directory& directory, const DirectoryRecord& record, bool durable);

}  // namespace reprieve::manager
