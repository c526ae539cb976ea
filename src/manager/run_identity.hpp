// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The counters of a directory, as the run that holds its lock has them. No MPI; rank 0's.

#include <cstdint>
#include <optional>
#include <string>

#include "core/directory.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/checkpoint_list.hpp"
#include "storage/format/file_index.hpp"
#include "storage/local/part_file.hpp"

namespace reprieve::manager {

/// Made at the start of a run, under the lock of the directory: raises the run counter above everything that was seen
/// in the directory, durably in one that is not new. Where that cannot be written (a full disk) a warning says so, and
/// the run continues: what it saves carries the counters, from which the next start takes them.
class RunIdentity {
 public:
  /// @param directory  lives as long as this
  RunIdentity(const core::Directory& directory, std::string prefix, bool durable);

  [[nodiscard]] const std::string& directory_id() const noexcept { return record_.id; }
  [[nodiscard]] std::uint64_t run() const noexcept { return record_.run; }

  /// The random mark of this launch: its node-local copies have it.
  [[nodiscard]] const std::string& launch() const noexcept { return own_.launch; }
  /// This launch has restored that copy.
  void set_start(const storage::LocalCopy& copy);
  /// From now on this launch is the last one, durably. @param newest  the newest checkpoint that is there
  /// @throws StorageError if that cannot be recorded: then it must not take a copy
  void begin_copies(const Commit& newest);
  /// A checkpoint will be committed by the rename of its staged file. If this launch ends in the middle of that, the
  /// next one still knows. @param time_us  of the save, which names the file
  void begin_commit(const Commit& commit, std::int64_t time_us) noexcept;
  /// That commit has failed.
  void cancel_commit() noexcept { begin_commit({}, 0); }
  /// A checkpoint was committed: a save of this launch, or a copy of the one before that became a file.
  void note_commit(const Commit& commit);

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
  void write_or_warn(bool durable) noexcept;
  [[nodiscard]] LaunchRecord* record_for(const Commit& commit);

  const core::Directory& directory_;
  std::string prefix_;
  bool durable_;
  DirectoryRecord record_;
  LaunchRecord own_;  ///< what the record says when this launch is the last one
  bool takes_copies_ = false;
  std::uint64_t last_save_ = 0;
};

/// The mark of a run that comes to its end now, so that a start after it does no work twice. Rank 0's.
[[nodiscard]] FinishedRun mark_of_end(CheckpointDirectory& directory, const RunIdentity& identity,
                                      std::uint64_t run_calls);

}  // namespace reprieve::manager
