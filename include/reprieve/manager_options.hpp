// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// `ManagerOptions`: the settings of a `CheckpointManager`. No MPI.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "reprieve/save.hpp"

namespace reprieve {

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
  Compression compress = Compression::none;
  /// fsync before the commit. Switching it off gives up the promise against power cuts; for tests and throw-away runs.
  bool durable = true;
  /// A handler writes its periodic and requested checkpoints in the background: see
  /// `CheckpointManager::save_in_background`. The save before the end of the job is never one of them.
  bool background = false;
  /// What a handler does with a periodic or requested save while the one before is still being written.
  BackgroundBusy background_busy = BackgroundBusy::wait;
  /// Where each node keeps node-local copies of the state, mostly /dev/shm, which is memory: see
  /// `CheckpointManager::local_copy`. Empty: there are none. All ranks of a node must see the same directory.
  std::string local_directory{};
  /// How often a handler takes one, at step boundaries.
  std::chrono::milliseconds local_every{10'000};
  /// Each part also goes to a rank of another host, in pieces between the steps: then the loss of a host loses nothing.
  /// Takes as much memory again. Only where `local_directory` is memory, and for a program with a handler; without one,
  /// `local_copy` waits until the copy before is at its partner.
  bool local_partner = false;
  /// A file with lines `<host> <domain>`: a partner lies in another domain (a rack, say) if there is one. Empty: each
  /// host is one. An absolute path, read by rank 0.
  std::string local_domains{};
  /// A notice that has stood for so long on a rank, and no save has begun: a step may be longer than the grace period,
  /// or a rank may hang. Then each rank brings its newest node-local copy into the checkpoint directory, by a thread
  /// and without the others, and the next start resumes from there. A save that is done in time is newer, and ends
  /// that. For a program with a handler.
  std::chrono::milliseconds emergency_save_after{1'000};
  /// Write over the blocks of the checkpoint that was retired last, which is faster than a new file. Not done, without
  /// an error, for a file that has other names or that a process on rank 0's node has open.
  bool recycle = true;
  /// Take the space for the next checkpoint in advance, as soon as the state has been restored or initialised: then a
  /// full disk cannot prevent a save, and the first one is as fast as later ones. Costs the time to write a checkpoint.
  bool reserve = false;
  /// Inside of a Slurm array, the number of the task is a constant of every checkpoint (`Checkpoint::add_constant`): a
  /// task does not resume from the state of another one.
  bool array_task_is_constant = true;
  /// Verify the checksums when a checkpoint is restored.
  bool verify_on_restore = true;
  /// Write `events.jsonl` in the directory: one JSON object per line for every start, restore, save and exit.
  bool event_log = true;
  /// How long to wait for a run that still holds the directory (the ranks of a killed run live on for seconds).
  std::chrono::milliseconds lock_timeout{30'000};
  /// How long a rank waits for the others in one stage of a save or a restore before it gives up and names them.
  std::chrono::milliseconds io_timeout{1'800'000};
  /// Called on rank 0 after each commit, with the checkpoint, to copy it elsewhere for one. Thread: the one that saves;
  /// a save of the background is committed by that one too, at a later call. The file stays until the next save ends.
  /// Cost: the program stands still as long as the function takes, the last save before the end of the job included.
  /// After `io_timeout` the other ranks give up: start a thread or a process for what takes long. It must not call this
  /// manager, its handler or MPI: the other ranks are not there. What it throws becomes a warning in the log, and the
  /// save counts as done. Not called for a checkpoint that a start or `reprieve drain` makes of node-local copies, nor
  /// in a drill. `reprieve run --after-commit` is another way, without the program.
  std::function<void(const std::filesystem::path& checkpoint)> after_commit{};
  /// The environment of rank 0 (`REPRIEVE_...`, configs/README.md) goes before these options, before the directory, and
  /// before the TerminationConfig of a handler that uses the manager. False: it is not read. A program with several
  /// managers switches it off for all but one: REPRIEVE_DIRECTORY names the directory of that one.
  bool read_environment = true;
};

}  // namespace reprieve
