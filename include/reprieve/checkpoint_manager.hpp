#pragma once

/// @file
/// `CheckpointManager`: the checkpoints of one directory.

#include <mpi.h>

#include <any>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprieve/checkpoint.hpp"
#include "reprieve/export.h"

namespace reprieve {

/// How the data of a checkpoint reach the file. Both give the same content to any HDF5 tool; see src/storage/FORMAT.md.
enum class WriterKind {
  direct,  ///< the chief lays the file out, every rank writes its data with pwrite at the offsets of the datasets
  mpio,    ///< collective HDF5 transfers through MPI-IO, read back and compared before the commit
};

/// How the direct writer hands bytes to the file system. What a file system cannot do is replaced by the next simpler
/// way, without an error.
enum class FileIo {
  automatic,   ///< as is fastest: `direct` for large parts on a disk, `page_cache` for the rest
  page_cache,  ///< plain pwrite
  direct,      ///< O_DIRECT, by threads that call pwrite
  io_uring,    ///< O_DIRECT, by io_uring if the library was built with it
};

/// Why a checkpoint was written.
struct SaveReason {
  enum class Kind { user, periodic, preemption };
  Kind kind = Kind::user;
  int rank = -1;          ///< preemption: the rank that had the notice
  std::string host{};     ///< preemption: its host
  std::string source{};   ///< preemption: "signal SIGTERM", "watcher function", "file", ...
  std::string message{};  ///< what the notice said, or what the user gave
};

/// Lower-case name: "user", "periodic", "preemption".
REPRIEVE_EXPORT const char* to_string(SaveReason::Kind kind) noexcept;

/// What a user's save function gets.
struct SaveFnContext {
  /// Where this rank may write. The chief's files there are committed together with the checkpoint, as the directory
  /// `<prefix>-<number>.files`; the other ranks' directories are scratch and vanish.
  std::filesystem::path write_directory;
  std::uint64_t number = 0;  ///< number of the checkpoint
  bool is_chief = false;
  std::span<const std::any> args;  ///< the arguments of `save_checkpoint_if_preempted(args...)`
};

/// A user's own part of a save, called on every rank before the commit. An exception makes the save fail on all ranks.
using SaveFn = std::function<void(const SaveFnContext&)>;

/// What is known about one checkpoint without reading its data.
struct CheckpointInfo {
  std::filesystem::path path;
  std::uint64_t number = 0;     ///< from the file name
  std::uint64_t run_calls = 0;  ///< the handler's `total_run_calls()` at the save
  int world_size = 0;           ///< ranks that saved
  std::chrono::system_clock::time_point time;
  std::uint64_t size_bytes = 0;
  SaveReason reason;
  /// The chief's files of the user's save function, if there were any.
  std::optional<std::filesystem::path> files_directory;
};

/// Figures of one save; the same on every rank.
struct SaveReport {
  std::filesystem::path path;
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;  ///< size of the state, all ranks together
  double seconds = 0;       ///< what the save took, to the commit, the slowest rank's
  /// For how much of that the program stood still: all of it, unless it was saved in the background.
  double blocked_seconds = 0;
};

enum class BackgroundBusy {
  wait,  ///< until the one before is committed
  skip,  ///< leave this one out
};

/// Settings of a CheckpointManager.
struct ManagerOptions {
  std::string prefix = "ckpt";  ///< file names are `<prefix>-<number>.h5`
  /// Newest checkpoints to keep; 0 keeps all.
  std::uint64_t max_to_keep = 3;
  /// Beyond `max_to_keep`, keep one checkpoint for every such span of time; zero: off.
  std::chrono::seconds keep_every{0};
  WriterKind writer = WriterKind::direct;
  FileIo io = FileIo::automatic;
  /// fsync before the commit. Switching it off gives up the promise against power cuts; for tests and throw-away runs.
  bool durable = true;
  /// A handler writes its periodic and requested checkpoints in the background: see
  /// `CheckpointManager::save_in_background`. The save before the end of the job is never one of them.
  bool background = false;
  /// What a handler does with a periodic or requested save while the one before is still being written.
  BackgroundBusy background_busy = BackgroundBusy::wait;
  /// The greatest copy of its state that a rank may make for a save in the background; a larger one is saved at once,
  /// without a copy. 0: no limit.
  std::uint64_t background_memory_bytes = 0;
  /// Write over the blocks of the checkpoint that was retired last, which is faster than a new file. Not done, without
  /// an error, for a file that has other names or that a process on the chief's node has open.
  bool recycle = true;
  /// Take the space for the next checkpoint in advance, as soon as the state has been restored or initialised: then a
  /// full disk cannot prevent a save, and the first one is as fast as later ones. Costs the time to write a checkpoint.
  bool reserve = false;
  /// Verify the checksums when a checkpoint is restored.
  bool verify_on_restore = true;
  /// Write `events.jsonl` in the directory: one JSON object per line for every start, restore, save and exit.
  bool event_log = true;
  /// How long to wait for a run that still holds the directory (the ranks of a killed run live on for seconds).
  std::chrono::milliseconds lock_timeout{30'000};
  /// How long a rank waits for the others in one stage of a save or a restore before it gives up and names them.
  std::chrono::milliseconds io_timeout{1'800'000};
};

/// The checkpoints of one directory: saves, finds, restores, verifies and retires them.
///
/// One living run owns a directory at a time (a lock file, released by the kernel when the process ends, however it
/// ends). All members are called from one thread. Members marked "collective" must be called by all ranks of the
/// communicator in the same order; they have the same result, or throw the same error, on every rank.
class REPRIEVE_EXPORT CheckpointManager {
 public:
  /// Opens the directory, makes it if needed, takes its lock, and removes what dead runs left behind. Collective.
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
  /// is replaced atomically. Collective. Returns when the checkpoint is durable.
  /// @throws StorageError, MismatchError (ranks registered different variables), MpiError, UnresponsiveError.
  /// On failure the temporary files are removed and all older checkpoints are untouched.
  SaveReport save(std::uint64_t number, const SaveReason& reason = {});

  /// The full form: with the handler's call count, and a user's save function with its arguments. Collective.
  struct SaveRequest {
    std::uint64_t number = 0;
    std::uint64_t run_calls = 0;
    SaveReason reason;
    SaveFn save_fn;
    std::span<const std::any> save_fn_args;
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

  /// Restores the newest valid checkpoint; damaged ones are passed over with a log line and set aside (suffix
  /// `.corrupt`). If there is none, calls @p initialize (if given) on every rank and returns nothing. Collective.
  /// @throws CorruptError if there are checkpoints and not one of them is valid; MismatchError if the newest valid one
  /// does not fit the registered state (it is not set aside); StorageError, MpiError, UnresponsiveError
  std::optional<CheckpointInfo> restore_or_initialize(const std::function<void()>& initialize = {});

  /// Restores one file. Collective.
  /// @throws CorruptError, MismatchError, StorageError, MpiError, UnresponsiveError; after an error the state is
  /// unspecified
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
