// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The counters of a directory, as the run that holds its lock has them. No MPI; the chief's.

#include <cstdint>
#include <optional>
#include <string>

#include "core/directory.hpp"
#include "manager/directory_record.hpp"
#include "storage/format/file_metadata.hpp"

namespace reprieve::manager {

/// Made at the start of a run, under the lock of the directory: raises the run counter above everything that was seen
/// in the directory, durably. Where that cannot be written (a full disk) a warning says so, and the run goes on: what
/// it saves carries the counters, from which the next start takes them.
class RunIdentity {
 public:
  /// @param directory  lives as long as this
  RunIdentity(const core::Directory& directory, std::string prefix, bool durable);

  [[nodiscard]] const std::string& directory_id() const noexcept { return record_.id; }
  [[nodiscard]] std::uint64_t run() const noexcept { return record_.run; }

  /// The identity of the next save. No two saves have the same, also if one of them failed or was removed.
  storage::SaveIdentity next_save();

  /// What the record says about the end of the run of this prefix.
  [[nodiscard]] std::optional<FinishedRun> finished() const;
  /// Remembers that the run of this prefix is finished. @throws StorageError
  void set_finished(const FinishedRun& mark);
  /// Forgets it. Nothing if there is no mark. Logs what goes wrong: a mark is void when its checkpoint is not the
  /// newest.
  void clear_finished() noexcept;

  /// At the end of a run, gives back the counters that were not used.
  void close() noexcept;

 private:
  void write_or_warn() noexcept;

  const core::Directory& directory_;
  std::string prefix_;
  bool durable_;
  DirectoryRecord record_;
  std::uint64_t last_save_ = 0;
};

}  // namespace reprieve::manager
