// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// `CheckpointManager`: the checkpoints of one directory.

#include <mpi.h>

#include <any>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reprieve/checkpoint.hpp"
#include "reprieve/export.h"
#include "reprieve/manager_options.hpp"
#include "reprieve/save.hpp"

namespace reprieve {

/// The checkpoints of one directory: saves, finds, restores, verifies and retires them.
///
/// One living run owns a directory at a time (a lock file, released by the kernel when the process ends, however it
/// ends). All members are called from one thread. Members marked "collective" must be called by all ranks of the
/// communicator in the same order; they have the same result, or throw the same error, on every rank.
class REPRIEVE_EXPORT CheckpointManager {
 public:
  /// Opens the directory, makes it (its last folder) if needed, takes its lock, removes what dead runs left.
  /// Collective. Options and directory are defaults for what the environment says (`ManagerOptions::read_environment`).
  /// @param comm  duplicated; needs to live only during the call. MPI must be initialised.
  /// @param checkpoint  the state; must outlive the manager
  /// @throws StorageError (locked, permission, io), ConfigError (prefix, limits), MpiError, UnresponsiveError
  CheckpointManager(MPI_Comm comm, Checkpoint& checkpoint, std::filesystem::path directory,
                    ManagerOptions options = {});
  /// Finishes a save in the background; releases the lock and the communicator. Collective unless the process is ending
  /// after an error. Does not throw.
  ~CheckpointManager();
  CheckpointManager(CheckpointManager&&) noexcept;
  CheckpointManager& operator=(CheckpointManager&&) noexcept;
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  /// Writes the state as checkpoint @p number, commits it, then retires old ones. An existing checkpoint of that number
  /// is replaced atomically. It is the newest from now on, whatever its number. Collective. Returns when the checkpoint
  /// is durable.
  /// @throws StorageError, MismatchError (ranks registered different variables), MpiError, UnresponsiveError.
  /// On failure the temporary files are removed and all older checkpoints are untouched.
  SaveReport save(std::uint64_t number, const SaveReason& reason = {});

  /// The same with a number that follows all that are in the directory: the calls of `run` of the handler that uses
  /// this manager if they do, else one more than the greatest. Collective.
  SaveReport save();

  /// The full form: with a user's save function and its arguments. Collective.
  struct SaveRequest {
    std::optional<std::uint64_t> number{};  ///< nothing: the next one, as `save()` chooses it
    std::optional<std::uint64_t>
        run_calls{};  ///< nothing: those of the handler that uses this manager, if there is one
    SaveReason reason{};
    SaveFn save_fn{};
    std::span<const std::any> save_fn_args{};
  };
  SaveReport save(const SaveRequest& request);

  /// Copies the state and returns; a thread writes the copy and makes it durable, without MPI and HDF5. It becomes a
  /// checkpoint only in `finish_background_save`, or in whatever comes first of the next save or restore and the end of
  /// the manager, which finish it too. The save function runs before this returns. Needs the direct writer; where a
  /// rank has no room for the copy, saves at once. Collective.
  /// Cost: a copy of this rank's part of the state, kept for the next time; the layout of the file.
  /// @throws as `save`; UsageError with the mpio writer
  void save_in_background(const SaveRequest& request);

  /// Whether a save in the background has begun that is not committed. Not collective; the same on every rank.
  [[nodiscard]] bool background_save_pending() const noexcept;

  /// Whether this rank's thread has written its part, or has failed to; true if there is none. Not collective, and not
  /// the same on every rank. Cost: one load.
  [[nodiscard]] bool background_save_written() const noexcept;

  /// Waits until all ranks have written their parts, and commits the checkpoint. Nothing if there is none. Collective.
  /// @throws what went wrong in a thread, as `save` would; StorageError if a thread does not end within `io_timeout`
  std::optional<SaveReport> finish_background_save();

  /// Copies the state into the memory of the nodes (`ManagerOptions::local_directory`) and returns; a thread of each
  /// rank takes the checksums. The next `restore_or_initialize` of this directory takes the newest complete copy if it
  /// is newer than all checkpoints: after a crash of the program, on the same hosts. A copy is no checkpoint: nothing
  /// of it is durable, and an orderly end of the manager removes it. Left out, and false, if the copy before is not
  /// complete yet or there is no room: the older one is kept then. A handler calls it every `local_every`. Collective.
  /// With `local_partner`, it waits until the copy before is complete at its partner. A node-local directory that
  /// cannot be made is logged, and is no error. Cost: a copy of this rank's part of the state; two are kept.
  /// @param number  of the checkpoint that it would be: who gives numbers to `save` gives them here too, and finds that
  /// of the copy in `CheckpointInfo::number`
  /// @throws UsageError without `local_directory`, or after a save with a save function, which a copy cannot hold;
  /// MismatchError, MpiError, UnresponsiveError
  bool local_copy(std::uint64_t number);
  /// The same with the number that `save()` would choose. @throws UsageError also if the saves of this manager were
  /// given numbers: that of the copy would say nothing about the state
  bool local_copy();

  /// Restores the newest valid checkpoint; corrupt ones are passed over with a log line that says what it costs, and
  /// quarantined (suffix `.corrupt`). Corrupt is what is wrong on every rank that reads it, also past the page cache.
  /// If the directory has no checkpoint, calls @p initialize (if given) on every rank and returns nothing. Collective.
  /// No variable is touched before the file is known to be valid, or else a failure is final: its message says so, and
  /// after it this manager neither initialises nor saves. See apps/guide/checkpoints.md, "Restoring".
  /// @throws CorruptError if there are checkpoints and not one of them is valid, or only some that were quarantined;
  /// MismatchError if the newest valid one does not fit the registered state (it is not quarantined); StorageError if
  /// something with the name of a checkpoint cannot be read or reached, or a rank reads wrong what others read right;
  /// MpiError, UnresponsiveError; what the user's functions throw
  /// Cost: reads every byte once; twice if functions of the user's run in between or older checkpoints have other
  /// variables
  std::optional<CheckpointInfo> restore_or_initialize(const std::function<void()>& initialize = {});

  /// Restores one file. Collective. All ranks together verify it first: no variable is touched if it is corrupt or does
  /// not fit. An error that comes later says that variables were overwritten: then no manager of this Checkpoint saves,
  /// until a restore has overwritten all of them.
  /// @throws CorruptError, MismatchError, StorageError, MpiError, UnresponsiveError
  CheckpointInfo restore(const std::filesystem::path& file);

  /// The newest committed checkpoint, without verification of its data. Collective.
  [[nodiscard]] std::optional<CheckpointInfo> latest() const;

  /// All committed checkpoints, oldest first. Collective.
  [[nodiscard]] std::vector<CheckpointInfo> checkpoints() const;

  [[nodiscard]] const std::filesystem::path& directory() const noexcept;
  [[nodiscard]] const ManagerOptions& options() const noexcept;

  /// Internal to the library.
  struct Impl;
  [[nodiscard]] Impl& impl() const noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprieve
